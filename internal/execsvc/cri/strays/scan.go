package strays

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/podstream/podstream/internal/execsvc/cri/exits"
)

// scans searches for the processes of containers. One search is under way at a time, and the next one is for all calls
// that wait for it: many commands that are killed at once cost few searches.
type scans struct {
	scan func(ids []string) (map[string][]int, error)
	// busy has a value during a search.
	busy chan struct{}

	mu      sync.Mutex
	waiting []*waiting
}

// waiting is a call that waits for the processes of a container. done has a value once they are set.
type waiting struct {
	id   string
	pids []int
	err  error
	done chan struct{}
}

func newScans(scan func(ids []string) (map[string][]int, error)) *scans {
	return &scans{scan: scan, busy: make(chan struct{}, 1)}
}

// of returns the processes of a container, by a search that begins after the call.
func (s *scans) of(id string) ([]int, error) {
	w := &waiting{id: id, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	s.busy <- struct{}{}
	s.next()
	<-s.busy
	<-w.done // It is among those of the search, or of one before.
	return w.pids, w.err
}

// next searches for all that wait.
func (s *scans) next() {
	s.mu.Lock()
	all := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ids := make([]string, len(all))
	for i, w := range all {
		ids[i] = w.id
	}
	slices.Sort(ids)
	found, err := s.scan(slices.Compact(ids))
	for _, w := range all {
		w.pids, w.err = found[w.id], err
		close(w.done)
	}
}

// scan returns the processes of the containers. It reads only what the kernel writes itself.
func scan(proc string, ids []string) (map[string][]int, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	found := map[string][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 {
			continue
		}
		cgroups, err := os.ReadFile(filepath.Join(proc, name, "cgroup"))
		if err != nil {
			continue // It has ended.
		}
		for _, id := range ids {
			if exits.InContainer(string(cgroups), id) {
				found[id] = append(found[id], pid)
			}
		}
	}
	return found, nil
}
