// Package recording keeps a stream of WatchPodUpdates in a file, and plays it back to consumers.
//
// A recording is JSON, one object a line. The first line is the header:
//
//	{"stream":"podconfig.v1.PodConfigService/WatchPodUpdates","version":1,"recorded":…,"endpoint":…,"podctl":…,"request":{…}}
//
// and each further one a message of the stream, in protobuf's JSON, with the seconds since the start:
//
//	{"seconds":0.001204,"message":{…}}
//
// All is printable ASCII, so that a recording can be looked at on a terminal whoever wrote the pods in it. A file whose name
// ends in ".gz" is compressed; a Reader sees that by the content. A file that was cut off, by kill -9 for instance, is good up
// to its last whole line. Fields of podconfig.v1 that the recording or the reading program doesn't know are left out.
//
// Writer writes, Reader reads, both a message at a time: nothing grows with the length of a recording. Server plays one back
// as a podconfig.v1 service; each stream reads the file for itself.
//
// podctl calls it. It starts no goroutines, and logs nothing.
package recording
