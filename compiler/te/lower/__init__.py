"""From a schedule to loop nests: bound inference, guards, a lowering for each operation."""
