// Package recording stores a stream of WatchPodUpdates in a file, and replays it to consumers.
//
// A recording is JSON, one object a line. The first line is the header:
//
//	{"stream":"podconfig.v1.PodConfigService/WatchPodUpdates","version":1,"recorded":…,"endpoint":…,"podctl":…,"request":{…}}
//
// and each further line is a message of the stream, in protobuf's JSON, with the seconds since the start:
//
//	{"seconds":0.001204,"message":{…}}
//
// All text is printable ASCII, so that a recording can be printed on a terminal whatever the pods in it contain. A
// file whose name ends in ".gz" is compressed; a Reader detects that by the content. A file that was cut off, for
// instance by kill -9, is valid up to its last whole line. Fields of podconfig.v1 that the recording or the reading
// program doesn't have are left out.
//
// Writer and Reader handle one message at a time: their memory doesn't depend on the length of a recording. Server
// replays a recording as a podconfig.v1 service; each stream reads the file separately.
//
// podctl calls it. It starts no goroutines, and logs nothing.
package recording
