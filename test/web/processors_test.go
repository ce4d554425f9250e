package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/rig"
)

// ownProcessor gives the browser a processor of its own, and another one to this test and everything else that it has started: the
// servers and the load. It returns how long the browser's threads have waited for their processor since then, in ms, as the kernel
// counts it, and for a virtual machine its host. With one processor, all share it.
func ownProcessor(t *testing.T) (waited func() float64) {
	t.Helper()
	var before, own, other unix.CPUSet
	rig.Must(t, unix.SchedGetaffinity(0, &before))
	var processors []int
	for i := range len(before) * 64 {
		if before.IsSet(i) {
			processors = append(processors, i)
		}
	}
	last := processors[len(processors)-1]
	own.Set(last)
	other.Set(processors[0])
	bind(threads(t, true), &own)
	bind(threads(t, false), &other)
	t.Cleanup(func() {
		bind(append(threads(t, true), threads(t, false)...), &before)
	})
	delays := func() map[string]float64 {
		out := map[string]float64{"host": stolen(last)}
		for _, thread := range threads(t, true) {
			// Time on the processor, time waited for it, and slices: the first two in ns.
			if fields := strings.Fields(read(thread + "/schedstat")); len(fields) == 3 {
				ns, _ := strconv.ParseFloat(fields[1], 64)
				out[thread] = ns / 1e6
			}
		}
		return out
	}
	start := delays()
	return func() (sum float64) {
		for thread, delay := range delays() {
			sum += delay - start[thread]
		}
		return sum
	}
}

// threads returns the threads of the browser, or else those of this process and of its other descendants, as directories of /proc.
func threads(t *testing.T, ofBrowser bool) (out []string) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/stat")
	rig.Must(t, err)
	parents := map[int]int{}
	for _, path := range entries {
		_, rest, _ := strings.Cut(read(path), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	for pid := range parents {
		ancestor := pid
		for ancestor > 1 && ancestor != os.Getpid() {
			ancestor = parents[ancestor]
		}
		command := read(fmt.Sprintf("/proc/%d/cmdline", pid))
		isBrowser := strings.Contains(command, "--remote-debugging-port") || strings.Contains(command, "--type=")
		if ancestor == os.Getpid() && isBrowser == ofBrowser {
			found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
			out = append(out, found...)
		}
	}
	return out
}

// bind has threads run on some processors. One that has ended is none.
func bind(threads []string, set *unix.CPUSet) {
	for _, thread := range threads {
		id, _ := strconv.Atoi(filepath.Base(thread))
		_ = unix.SchedSetaffinity(id, set)
	}
}

// stolen returns how long a virtual processor has waited for a real one, in ms.
func stolen(processor int) float64 {
	const steal, tick = 8, 10 // /proc/stat counts in ticks of 10 ms.
	for line := range strings.Lines(read("/proc/stat")) {
		if fields := strings.Fields(line); len(fields) > steal && fields[0] == fmt.Sprint("cpu", processor) {
			ticks, _ := strconv.ParseFloat(fields[steal], 64)
			return ticks * tick
		}
	}
	return 0
}

// read returns a file of /proc. Empty: it is gone.
func read(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
