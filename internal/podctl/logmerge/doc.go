// Package logmerge prints the logs of several containers line by line: merged by their times if they are read to their end,
// or as the lines come if they are followed.
//
// It keeps at most one incomplete line of each container's two streams, of at most MaxLine bytes. `podctl logs` calls it,
// and opens the streams. Follow starts one goroutine for each log, and returns after their end; Merge starts none. Neither
// escapes a text: the caller's writer does.
package logmerge
