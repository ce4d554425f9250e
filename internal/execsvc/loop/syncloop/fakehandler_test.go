package syncloop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeHandler records the calls, as "add a b" or "sources file=true complete=false".
type fakeHandler struct {
	mu    sync.Mutex
	calls []string
	// hold, if set, blocks HandlePodAdditions until it is closed.
	hold chan struct{}
	// add, if set, is what HandlePodAdditions does in place of that.
	add        func()
	cleanUpErr error
}

func (f *fakeHandler) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func names(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name+"="+string(p.UID))
	}
	return strings.Join(out, " ")
}

func (f *fakeHandler) HandlePodAdditions(pods []*v1.Pod) {
	f.note("add %s", names(pods))
	switch {
	case f.add != nil:
		f.add()
	case f.hold != nil:
		<-f.hold
	}
}

func (f *fakeHandler) HandlePodUpdates(pods []*v1.Pod) { f.note("update %s", names(pods)) }

func (f *fakeHandler) HandlePodRemoves(pods []*v1.Pod) { f.note("remove %s", names(pods)) }

func (f *fakeHandler) HandlePodReconcile(pods []*v1.Pod) { f.note("reconcile %s", names(pods)) }

func (f *fakeHandler) HandlePodSyncs(uids []types.UID) { f.note("sync %v", uids) }

func (f *fakeHandler) HandleProbes(uids []types.UID) { f.note("probes %v", uids) }

func (f *fakeHandler) HandlePodCleanups(context.Context) error {
	f.note("clean up")
	return f.cleanUpErr
}

func (f *fakeHandler) HandleSources(ready map[string]bool, complete bool) {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		list = append(list, fmt.Sprintf("%s=%v ", name, ready[name]))
	}
	f.note("sources %scomplete=%v", strings.Join(list, ""), complete)
}
