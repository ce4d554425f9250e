package podconfigd

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRefusedWritersDontFillTheLog: a caller without the right to write can't fill the log by its attempts, and those of another
// one are logged even so.
func TestRefusedWritersDontFillTheLog(t *testing.T) {
	n, log := launchWriters(t, "clients:\n- {commonName: one, role: inspector}\n- {commonName: two, role: inspector}\n")
	write := func(name string) {
		t.Helper()
		c, end := n.as(name)
		defer end()
		_, err := c.ApplyManifests(t.Context(), &podconfigv1.ApplyManifestsRequest{})
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.Unavailable {
			t.Fatalf("%s: %v; want PERMISSION_DENIED", name, err)
		}
	}
	const calls = 200
	for range calls {
		write("one")
	}
	write("two")
	if n := log.Count(`msg="manifest write"`, "identity=one"); n == 0 || n >= calls/2 {
		t.Errorf("%d attempts have %d lines; want some, and fewer", calls, n)
	}
	if n := log.Count(`msg="manifest write"`, "identity=two"); n != 1 {
		t.Errorf("the attempt of another caller has %d lines; want one", n)
	}
}
