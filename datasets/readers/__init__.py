"""Files in: CSV tables, the Wyze layout, IFTTT recipes; every bad row is reported with its place."""
