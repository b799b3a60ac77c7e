"""PostGIS as a source and as a target: reading by table or SQL, publishing by staging and swap."""
