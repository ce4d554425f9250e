package strays

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

// Calls that come during a search share the next one, and each gets the processes of its container.
func TestScansAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		searches, held := 0, make(chan struct{})
		s := newScans(func(ids []string) (map[string][]int, error) {
			searches++
			<-held
			found := map[string][]int{}
			for _, id := range ids {
				pid, _ := strconv.Atoi(id)
				found[id] = []int{pid}
			}
			return found, nil
		})
		var calls sync.WaitGroup
		call := func(id int) {
			calls.Go(func() {
				if got, err := s.of(strconv.Itoa(id)); err != nil || !slices.Equal(got, []int{id}) {
					t.Errorf("container %d has the processes %v, %v", id, got, err)
				}
			})
		}
		call(1)
		synctest.Wait()
		for i := range 100 {
			call(2 + i/2) // Two calls for each container.
		}
		synctest.Wait()
		close(held)
		calls.Wait()
		if searches != 2 {
			t.Errorf("101 calls cost %d searches; want 2", searches)
		}
	})
}

// A search finds the processes of several containers.
func TestScan(t *testing.T) {
	proc := t.TempDir()
	for pid, id := range map[int]string{10: container, 11: other, 12: container, 1: container} {
		shown{inside(id), arguments(command...)}.write(t, proc, pid)
	}
	shown{"0::/\n", ""}.write(t, proc, 13)
	found, err := scan(proc, []string{container, other})
	slices.Sort(found[container])
	if err != nil || !slices.Equal(found[container], []int{10, 12}) || !slices.Equal(found[other], []int{11}) {
		t.Errorf("found %v, %v", found, err)
	}
}
