"""An engine on a Milvus server, for galleries that outgrow one machine."""
