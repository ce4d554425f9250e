// Package hostiledaemon answers every call of a gRPC service with messages that have the strings of package hostiletext in
// every field: lists with an element for each string, and streams with each of their events for each string.
//
// It is for the test that sends these strings through all views of podctl. It finds methods and fields by reflection, so
// that it serves a new method as soon as it is in the .proto file. Its one goroutine is that of the gRPC server.
package hostiledaemon
