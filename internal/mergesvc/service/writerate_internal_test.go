package service

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
)

// TestWriteRateTable: the table of rates is bounded. Callers beyond the bound share a rate, and a caller that is idle makes
// room.
func TestWriteRateTable(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	r := newWriteRates(clock)
	caller := func(i int) access.Caller { return access.Caller{Identity: fmt.Sprint("c", i), Peer: "p"} }
	for i := range writeIdentities {
		if err := r.allow(caller(i), 1); err != nil {
			t.Fatalf("caller %d: %v", i, err)
		}
	}
	refused := 0
	for i := range 2 * writesBurst {
		if err := r.allow(caller(writeIdentities+i), 1); status.Code(err) == codes.ResourceExhausted {
			refused++
		}
	}
	if refused != writesBurst || len(r.of) > writeIdentities+1 {
		t.Errorf("of %d more callers, %d are refused, with %d entries; want that they share one rate", 2*writesBurst, refused, len(r.of))
	}
	if err := r.allow(caller(0), 1); err != nil {
		t.Errorf("a caller with an entry: %v", err)
	}
	clock.Step(time.Minute)
	if err := r.allow(caller(-1), 1); err != nil || len(r.of) > 1 {
		t.Errorf("after a minute, one more caller: %v, with %d entries; want one", err, len(r.of))
	}
	// The rate: after the burst, so many a second.
	for range writesBurst - 1 {
		_ = r.allow(caller(-1), 1)
	}
	if err := r.allow(caller(-1), 1); err == nil {
		t.Error("more than the burst is allowed")
	}
	clock.Step(time.Second)
	for i := range writesPerSecond + 1 {
		if err := r.allow(caller(-1), 1); (err == nil) != (i < writesPerSecond) {
			t.Errorf("write %d after a second: %v; want %d", i+1, err, writesPerSecond)
		}
	}
}
