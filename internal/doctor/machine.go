package doctor

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// forwarding checks whether the kernel forwards the pods' packets.
func (e *examination) forwarding(context.Context) []Finding {
	text, err := os.ReadFile(e.path("proc/sys/net/ipv4/ip_forward"))
	if err != nil {
		return []Finding{{"forwarding", Skipped, err.Error(), ""}}
	}
	if string(bytes.TrimSpace(text)) != "1" {
		return []Finding{{"forwarding", Warning, "the kernel doesn't forward IPv4 (net.ipv4.ip_forward=0)", "sysctl -w net.ipv4.ip_forward=1, if pods shall reach beyond this node"}}
	}
	return []Finding{{"forwarding", OK, "the kernel forwards IPv4", ""}}
}

// skew is the difference from the API server's clock beyond which certificates and tokens may seem invalid.
const skew = 30 * time.Second

// clock checks the clock, by the kernel's state and the API server's time.
func (e *examination) clock(ctx context.Context) []Finding {
	now := Finding{"clock", OK, "the kernel reports that it is synchronized", ""}
	var timex unix.Timex
	if state, err := unix.Adjtimex(&timex); err != nil {
		now = Finding{"clock", Skipped, fmt.Sprintf("the kernel doesn't report whether it is synchronized: %v", err), ""}
	} else if state == unix.TIME_ERROR || timex.Status&unix.STA_UNSYNC != 0 {
		now = Finding{"clock", Warning, "the kernel reports that it is not synchronized", "run an NTP client, such as chrony or systemd-timesyncd: a clock that drifts makes tokens and certificates invalid"}
	}
	found := []Finding{now}
	if e.Podexec.Settings.Kubeconfig == "" {
		return found
	}
	theirs, err := e.serverTime(ctx)
	if err != nil {
		return found // credentials reports the reason
	}
	// The header has whole seconds, and the answer took some time.
	if off := e.Now().Sub(theirs); math.Abs(off.Seconds()) > skew.Seconds() {
		word := "ahead of"
		if off < 0 {
			word = "behind"
		}
		found = append(found, Finding{
			"clock", Failed, fmt.Sprintf("this clock is %v %s the API server's", off.Abs().Round(time.Second), word),
			"set it right: certificates and tokens seem to be not valid yet, or not any more",
		})
	}
	return found
}
