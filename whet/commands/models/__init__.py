"""Commands of whole models: their groups as a table and a drawing, and their peers."""
