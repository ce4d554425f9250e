package execconfig

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"
)

// noField are the flags that a KubeletConfiguration has no field for.
var noField = []string{
	"kubeconfig", "bootstrap-kubeconfig", "cert-dir", "node-ip", "cloud-provider", "node-labels", "image-credential-provider-config",
	"image-credential-provider-bin-dir", "crash-loop-backoff-base", "image-pull-backoff-base", "image-pull-backoff-max",
	"maximum-dead-containers", "maximum-dead-containers-per-container", "minimum-container-ttl-duration", "tune-kernel",
}

// wantEffective checks that podexecd works in the same way with its /configz as its file.
func wantEffective(t *testing.T, settings *Settings, args []string) {
	t.Helper()
	c := settings.KubeletConfiguration()
	c.Kind, c.APIVersion = "KubeletConfiguration", "kubelet.config.k8s.io/v1beta1"
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		return !slices.Contains(noField, name)
	})
	again, err := settle(t, string(text), args...)
	if err != nil {
		t.Fatalf("podexecd doesn't start with what it says it goes by: %v", err)
	}
	if settings.StreamingConnectionIdleTimeout == 0 {
		again.StreamingConnectionIdleTimeout = 0 // The file can't say never: there, zero stands for the default.
	}
	ignored := cmpopts.IgnoreFields(Settings{}, "Unsupported", "Podconfigd", "Ignored", "Warnings", "Exceptions")
	if diff := cmp.Diff(*settings, *again, ignored, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreUnexported(Settings{})); diff != "" {
		t.Errorf("with what podexecd says it goes by it would go by (-was +is):\n%s", diff)
	}
}

// No threshold at all is written explicitly: otherwise the kubelet's defaults would apply.
func TestNoEvictionIsWritten(t *testing.T) {
	settings, err := settle(t, "", "--eviction-hard=")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"memory.available": "0%"}, settings.KubeletConfiguration().EvictionHard); diff != "" {
		t.Errorf("evictionHard (-want +got):\n%s", diff)
	}
}

// TLS flags appear in the form of a file's fields.
func TestTLSIsWritten(t *testing.T) {
	args := []string{"--port=10250", "--tls-min-version=VersionTLS12", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}
	settings, err := settle(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	c := settings.KubeletConfiguration()
	if c.TLSMinVersion != "VersionTLS12" || !slices.Equal(c.TLSCipherSuites, []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}) {
		t.Errorf("tlsMinVersion %q, tlsCipherSuites %q", c.TLSMinVersion, c.TLSCipherSuites)
	}
	wantEffective(t, settings, args)
}
