package grpcserver

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/stats"
)

// TestCallEndsWithConnection: the context of a call, however long its deadline, ends with the call's connection, and
// not before.
func TestCallEndsWithConnection(t *testing.T) {
	conn := connectionContexts{}.TagConn(t.Context(), &stats.ConnTagInfo{})
	call, cancel := context.WithTimeout(conn, time.Hour)
	defer cancel()
	connectionContexts{}.HandleConn(conn, &stats.ConnBegin{})
	if err := call.Err(); err != nil {
		t.Errorf("the call ends at the connection's begin: %v", err)
	}
	connectionContexts{}.HandleConn(conn, &stats.ConnEnd{})
	if err := call.Err(); err == nil {
		t.Error("the call's context goes on after the connection; want it ended")
	}
}
