//go:build !failpoints

package service

import "google.golang.org/grpc"

func sendFaulty(stream grpc.ServerStream, m any) error { return stream.SendMsg(m) }
