"""Operations of the loop IR: operators, intrinsics, constants and the dtype rules behind them."""
