package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	shared "github.com/podstream/podstream/test/rig"
)

// vitals are the resources of a process. Memory is in KiB.
type vitals struct{ rss, peak, fds, goroutines int }

// above reports whether the memory is more than the limit. With the race detector, which multiplies it, it never is.
func above(memory, limit int) bool { return !shared.Raced && memory > limit }

func (e *exposed) vitals() (v vitals, err error) {
	proc := fmt.Sprintf("/proc/%d/", e.daemon.Pid())
	text, err := os.ReadFile(proc + "status")
	if err != nil {
		return v, err
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &v.rss)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &v.peak)
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		return v, err
	}
	goroutines, err := metricOn(e.metrics, "go_goroutines")
	v.fds, v.goroutines = len(fds), int(goroutines)
	return v, err
}

// metricOn returns the value of the series, labels included, on a metrics page.
func metricOn(address, series string) (float64, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the page has no %s", series)
}
