package gates

import (
	"slices"
	"testing"
)

// The states are those that podexecd has, whatever a gate without an effect is set to.
func TestStates(t *testing.T) {
	g, mistakes := New(map[string]bool{MemoryQoS: false, "EnvFiles": false, "PodCertificateRequest": true})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	states := g.States()
	if len(states) != len(table) {
		t.Errorf("%d states; want %d", len(states), len(table))
	}
	for _, want := range []State{
		{MemoryQoS, "BETA", false}, {GracefulNodeShutdown, "BETA", true}, {"EnvFiles", "BETA", true}, {"PodCertificateRequest", "", false}, {SELinuxMount, "", true},
		{"ClusterTrustBundleProjection", "", true}, {ComponentFlagz, "BETA", true}, {ComponentStatusz, "BETA", true},
		{"AllowDNSOnlyNodeCSR", "DEPRECATED", false},
	} {
		if !slices.Contains(states, want) {
			i := slices.IndexFunc(states, func(s State) bool { return s.Name == want.Name })
			if i < 0 {
				t.Errorf("%s isn't there", want.Name)
				continue
			}
			t.Errorf("%+v; want %+v", states[i], want)
		}
	}
}
