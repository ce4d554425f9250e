package differential

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	podsCount = flag.Uint64("pods", 2000, "how many mutants TestPods compares")
	podsSeed  = flag.Uint64("pods.seed", 0, "the seed of TestPods; 0 takes the time")
	podsFirst = flag.Uint64("pods.first", 0, "the number of the first mutant")
	podsProg  = flag.String("pods.program", "", "a parsepods that is built already")
	podsShow  = flag.Int("pods.show", 10, "how many unexplained mutants are shown in full")
)

// podsBatch is the number of mutants in one batch.
const podsBatch = 100

// TestPods compares the kubelet's and Podstream's results for mutated pods: whether they are rejected, and the
// resulting pods.
func TestPods(t *testing.T) {
	seed := *podsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d; repeat with -pods.seed=%[1]d", seed)
	program, err := parsepodsProgram()
	if err != nil {
		t.Fatal(err)
	}
	found := comparePods(t, program, seed, *podsFirst, *podsCount)
	t.Logf("%d pods: %d run by both, %d refused by both", *podsCount, found.accepted, found.refused)
	for _, rule := range slices.Sorted(maps.Keys(found.rules)) {
		t.Logf("rule %s: %d pods", rule, found.rules[rule])
	}
	found.report(t)
}

// parsepodsProgram returns the parsepods of -pods.program, or builds one.
func parsepodsProgram() (string, error) {
	if *podsProg != "" {
		return *podsProg, nil
	}
	return parsepods()
}

// findings are the results of a comparison.
type findings struct {
	mu                sync.Mutex
	accepted, refused int
	// rules counts, for each rule, the mutants of which it explained a difference.
	rules map[string]int
	// unexplained has the mutants with differences that no rule explains, by the shape of the difference.
	unexplained map[string][]string
	count       map[string]int
	mutants     int
}

// comparePods compares mutants, from the number first on.
func comparePods(t *testing.T, program string, seed, first, count uint64) *findings {
	t.Helper()
	found := &findings{rules: map[string]int{}, unexplained: map[string][]string{}, count: map[string]int{}}
	batches := make(chan uint64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			if err := found.work(program, seed, batches, first+count); err != nil {
				t.Error(err)
				for range batches {
				}
			}
		})
	}
	for at := first; at < first+count; at += podsBatch {
		batches <- at
	}
	close(batches)
	workers.Wait()
	return found
}

// work compares the batches that start with the given numbers.
func (f *findings) work(program string, seed uint64, batches <-chan uint64, end uint64) (err error) {
	mutator, err := NewMutator(seed)
	if err != nil {
		return err
	}
	parser, err := StartParser(program)
	if err != nil {
		return err
	}
	defer func() {
		if closed := parser.Close(); err == nil {
			err = closed
		}
	}()
	for at := range batches {
		var mutants []*Mutant
		var manifests []Manifest
		for number := at; number < min(at+podsBatch, end); number++ {
			m, err := mutator.Mutant(number)
			if err != nil {
				return fmt.Errorf("mutant %d: %w", number, err)
			}
			mutants, manifests = append(mutants, m), append(manifests, m.Manifest)
		}
		if err := parser.Send(manifests); err != nil {
			return err
		}
		kubelet := make([]KubeletResult, len(mutants))
		for i, m := range mutants {
			kubelet[i] = Kubelet(m.Manifest)
		}
		answers, err := parser.Answers()
		if err != nil {
			return err
		}
		for i, m := range mutants {
			differences, err := ComparePod(kubelet[i], answers[i])
			if err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
			f.add(m, kubelet[i], differences)
		}
	}
	return nil
}

func (f *findings) add(m *Mutant, kubelet KubeletResult, differences []PodDifference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch refused := slices.ContainsFunc(differences, func(d PodDifference) bool { return d.Kind != Content }); {
	case refused:
	case kubelet.Err == nil:
		f.accepted++
	default:
		f.refused++
	}
	explained := map[string]bool{}
	unexplained := false
	for _, d := range differences {
		if rule := explain(m, d); rule != "" {
			explained[rule] = true
			continue
		}
		unexplained = true
		shape := shapeOf(d)
		f.count[shape]++
		if len(f.unexplained[shape]) == 0 {
			f.unexplained[shape] = append(f.unexplained[shape], fmt.Sprintf("%s\n%s", d, m))
		}
	}
	for rule := range explained {
		f.rules[rule]++
	}
	if unexplained {
		f.mutants++
	}
}

// shapeOf returns the difference without indices and most values, so that similar ones are counted together.
func shapeOf(d PodDifference) string {
	digits := strings.NewReplacer("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "", "9", "")
	message := d.Message
	if i := strings.LastIndex(message, `": `); i >= 0 {
		message = message[i+3:]
	}
	if len(message) > 120 {
		message = message[:120]
	}
	return digits.Replace(fmt.Sprintf("%s %s %s", d.Kind, d.Field, message))
}

// report fails the test for the differences that no rule explains.
func (f *findings) report(t *testing.T) {
	t.Helper()
	if f.mutants == 0 {
		return
	}
	t.Errorf("%d pods with differences that no rule explains", f.mutants)
	shapes := slices.SortedFunc(maps.Keys(f.unexplained), func(a, b string) int { return f.count[b] - f.count[a] })
	for i, shape := range shapes {
		if i < *podsShow {
			t.Errorf("%d times: %s", f.count[shape], f.unexplained[shape][0])
		} else if i < 400 {
			t.Logf("%d times: %s", f.count[shape], shape)
		}
	}
}
