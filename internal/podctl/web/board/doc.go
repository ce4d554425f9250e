// Package board has the state that all tabs of `podctl web` show: what the daemons have sent, joined and summarized as rows of
// podweb.v1, with all text made harmless.
//
// Package upstream writes it, from one stream and one list of each kind for all tabs. Package service reads it: each part is a
// Log, a Table or a Value of package feed. Everything is bounded; what is left out is counted.
//
// It starts no goroutines, makes no calls, and reads no files, except lines of manifests by Config.ReadManifest.
//
// Lock order: Board.mu, then the locks of package feed; Timeline.mu is taken under the lock of its Log.
package board
