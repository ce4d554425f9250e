package stream

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// TestSharesOfStreams: neither the pods of one namespace nor a user without a certificate can use up all
// streams.
func TestSharesOfStreams(t *testing.T) {
	apiServer := &auth.User{Name: "kube-apiserver", Certificate: true}
	pod := func(namespace, uid string) podview.Pod { return podview.Pod{Namespace: namespace, UID: types.UID(uid)} }
	fill := func(h *Handler, user *auth.User, pods func(i int) podview.Pod) int {
		n := 0
		for i := range 2000 {
			if _, err := h.slots.take(pods(i), user); err == nil {
				n++
			}
		}
		return n
	}
	for what, tc := range map[string]struct {
		user *auth.User
		pods func(i int) podview.Pod
		most int
	}{
		"two pods":        {apiServer, func(i int) podview.Pod { return pod("mallory", fmt.Sprint("m", i%2)) }, 500},
		"many pods":       {apiServer, func(i int) podview.Pod { return pod("mallory", fmt.Sprint("m", i)) }, 500},
		"many namespaces": {&auth.User{Name: "mallory"}, func(i int) podview.Pod { return pod(fmt.Sprint("n", i), fmt.Sprint("p", i)) }, 500},
	} {
		h := New(Config{})
		if n := fill(h, tc.user, tc.pods); n > tc.most {
			t.Errorf("%s: %d streams; want %d at most", what, n, tc.most)
		}
		for _, victim := range []*auth.User{apiServer, {Name: "prometheus"}} {
			leave, err := h.slots.take(pod("victim", "v"), victim)
			if err != nil {
				t.Errorf("%s: another tenant's pod, to %s: %v", what, victim.Name, err)
				continue
			}
			leave()
		}
	}
	h := New(Config{})
	if n := fill(h, apiServer, func(i int) podview.Pod { return pod(fmt.Sprint("n", i), fmt.Sprint("p", i)) }); n != 1000 {
		t.Errorf("the API server has %d streams to pods of a thousand namespaces; want all 1000", n)
	}
	if _, err := h.slots.take(pod("victim", "v"), apiServer); err == nil || statusOf(err) != 429 {
		t.Errorf("one stream too many: %v; want 429", err)
	}
}
