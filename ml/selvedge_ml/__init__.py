"""Models of what sensors say next: trained, judged by what is simplest, and exported."""
