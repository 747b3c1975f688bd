"""Rows in a PostgreSQL table, searched by its extension pgvector."""
