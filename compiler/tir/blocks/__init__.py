"""Loop IR made of blocks: its text, the regions that blocks use, and the way to plain loops."""
