package daemon

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/grpcserver"
)

const (
	// maxLimit bounds the flags of numbers, some of which are multiplied by four.
	maxLimit = math.MaxInt32 / 4
	// A request has to hold the known pods of a node; what is received at once is bounded by a peer's requests.
	minRequestBytes, maxRequestBytes = 64 << 10, 1 << 30
	maxRequestTimeout                = time.Hour
)

// limitFlag is the flag of a limit that is a number.
type limitFlag struct {
	name             string
	value            *int
	standard, lo, hi int
	usage            string
}

func limitFlags(l *grpcserver.Limits) []limitFlag {
	return []limitFlag{
		{"max-connections", &l.MaxConnections, 10_000, 1, maxLimit, "`number` of connections of each --listen address"},
		{"max-connections-per-peer", &l.MaxConnectionsPerPeer, 1024, 1, maxLimit,
			"`number` of connections that one uid, or one certificate's identity at an IP address, may have; all at one address have four times as many"},
		{"max-handshakes", &l.MaxHandshakes, runtime.GOMAXPROCS(0), 1, maxLimit,
			"`number` of TLS handshakes that are computed at once; others wait, or are refused if that would take 4 s; by default one for each processor"},
		{"max-streams-per-connection", &l.MaxStreamsPerConnection, 256, 1, maxLimit, "`number` of calls that may be under way on one connection"},
		{"max-calls-per-peer", &l.MaxCallsPerPeer, 2048, 1, maxLimit,
			"`number` of calls that one uid, or one certificate's identity at an IP address, may have under way; all at one address have four times as many"},
		{"max-requests-per-second", &l.RequestsPerSecond, 500, 1, maxLimit,
			"`number` of calls that one uid, or one certificate's identity at an IP address, may begin each second, on average; four times as many at once"},
		{"max-request-bytes", &l.MaxRequestBytes, 4 << 20, minRequestBytes, maxRequestBytes, "size in `bytes` of one request message"},
	}
}

// addLimits adds the flags of the limits.
func addLimits(fs *pflag.FlagSet, l *grpcserver.Limits) {
	for _, f := range limitFlags(l) {
		fs.IntVar(f.value, f.name, f.standard, f.usage)
	}
	fs.Lookup("max-handshakes").DefValue = "0" // The help doesn't depend on the machine.
	fs.DurationVar(&l.RequestTimeout, "request-timeout", 30*time.Second, "`time` in which a call's request must be sent")
	fs.DurationVar(&l.HandshakeTimeout, "handshake-timeout", 10*time.Second,
		"`time` in which a connection's handshakes must be done, without the time for which the daemon lets them wait")
}

// checkLimits returns an error if a flag is out of its range.
func checkLimits(l grpcserver.Limits) error {
	for _, f := range limitFlags(&l) {
		if *f.value < f.lo || *f.value > f.hi {
			return fmt.Errorf("--%s %d: want a number from %d to %d", f.name, *f.value, f.lo, f.hi)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"request-timeout", l.RequestTimeout}, {"handshake-timeout", l.HandshakeTimeout}} {
		if f.value < time.Second || f.value > maxRequestTimeout {
			return fmt.Errorf("--%s %v: want a time from 1s to %v", f.name, f.value, maxRequestTimeout)
		}
	}
	return nil
}
