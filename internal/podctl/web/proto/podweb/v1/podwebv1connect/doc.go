// Package podwebv1connect is generated from podweb/v1/podweb.proto by protoc-gen-connect-go: the handler and the client of
// podweb.v1.WebService, the API between podctl and its page.
//
// Package web serves its handler, which package service implements; tests call its client. It starts no goroutines. `make generate`
// writes all of its files but this one.
package podwebv1connect
