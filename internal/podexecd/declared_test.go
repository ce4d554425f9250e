package podexecd

import (
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

// The Node's status and the admission of pods have the same features: those of the feature gates, and of the runtime while
// it reports them.
func TestDeclaredFeatures(t *testing.T) {
	const hostNetwork = "UserNamespacesHostNetworkSupport"
	opts, err := parse([]string{"--root-dir=" + t.TempDir(), "--hostname-override=n1", "--feature-gates=" + hostNetwork + "=true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{opts: opts}
	if n.declared, err = declared.New(kubeletconfig.Version, opts.settings.Gates().Has); err != nil {
		t.Fatal(err)
	}
	posted := (&cluster{opts: opts}).nodeConfig(n).DeclaredFeatures
	for _, runtime := range []*runtimeapi.RuntimeFeatures{nil, {UserNamespacesHostNetwork: true}} {
		names := posted(runtime)
		if !slices.Contains(names, "RestartAllContainersOnContainerExits") || slices.Contains(names, hostNetwork) != runtime.GetUserNamespacesHostNetwork() {
			t.Errorf("runtime %v: the Node declares %q", runtime, names)
		}
		admits := new(facts).admission(opts, nodestatus.Runtime{Features: runtime}, n.declared).Declared.Names()
		if !slices.Equal(admits, names) {
			t.Errorf("runtime %v: the Node declares %q, and pods are admitted against %q", runtime, names, admits)
		}
	}
}
