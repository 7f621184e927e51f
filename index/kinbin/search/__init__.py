"""Finding rows: runs and views, bands and scan, plan, sealing and merging."""
