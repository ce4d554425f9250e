package store_test

import (
	"fmt"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// BenchmarkCommit commits a change of one pod among many. The cost should depend on the change, not on the
// number of pods.
func BenchmarkCommit(b *testing.B) {
	for _, noSync := range []bool{false, true} {
		for _, pods := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("nosync=%t/pods=%d", noSync, pods), func(b *testing.B) {
				s := newSetting(b)
				s.cfg.NoSync = noSync
				st, _ := s.open(b)
				c := &store.Contents{Instance: "bench"}
				for n := range pods {
					c.Pods = append(c.Pods, newPod(fmt.Sprint("u", n), fmt.Sprint("n", n), 1, 1500))
				}
				if err := st.Replace(c); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for number := uint64(1); b.Loop(); number++ {
					n := int(number) * 7 % pods
					p := newPod(fmt.Sprint("u", n), fmt.Sprint("n", n), number, 1500)
					if err := st.Commit([]*revision.Revision{rev(number, change(revision.UPDATE, p))}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkOpen opens a store of many pods: the daemon's start waits for it.
func BenchmarkOpen(b *testing.B) {
	s := newSetting(b)
	st, _ := s.open(b)
	c := &store.Contents{Instance: "bench"}
	for n := range 1000 {
		c.Pods = append(c.Pods, newPod(fmt.Sprint("u", n), fmt.Sprint("n", n), 1, 1500))
	}
	if err := st.Replace(c); err != nil {
		b.Fatal(err)
	}
	mustClose(b, st)
	for b.Loop() {
		st, _, err := store.Open(s.cfg)
		if err != nil {
			b.Fatal(err)
		}
		mustClose(b, st)
	}
}
