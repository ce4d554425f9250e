package credential

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/metrictest"
)

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// TestProviderConfig: each version of the configuration is read, and errors name the file and the provider.
func TestProviderConfig(t *testing.T) {
	good := providers("p")
	replaced := func(old, now string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("there is no %q in the configuration", old)
		}
		return strings.Replace(good, old, now, 1)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"v1", good, ""},
		{"v1beta1", replaced("config.k8s.io/v1", "config.k8s.io/v1beta1"), ""},
		{"v1alpha1", replaced("config.k8s.io/v1", "config.k8s.io/v1alpha1"), ""},
		{"a plugin of v1alpha1", replaced("credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1alpha1"), ""},
		{"JSON", `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"p","matchImages":["a.io"],` +
			`"defaultCacheDuration":"0s","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`, ""},
		{"another version", replaced("config.k8s.io/v1", "config.k8s.io/v2"), "want CredentialProviderConfig"},
		{"another kind", replaced("CredentialProviderConfig", "KubeletConfiguration"), "want CredentialProviderConfig"},
		{"an unknown field", replaced("matchImages", "matchimages2"), "matchimages2"},
		{"no YAML", "\t{", "config.yaml"},
		{"no providers", good[:strings.Index(good, "- name")] + "  []\n", "has no providers"},
		{"a name with a slash", replaced("name: p", "name: ../p"), `provider "../p": name`},
		{"no name", replaced("name: p", "name: ''"), "name must be"},
		{"a name twice", providers("p", "q", "p"), `provider "p" is there twice`},
		{"a plugin's version", replaced("credentialprovider.kubelet.k8s.io/v1", "v1"), `apiVersion "v1"`},
		{"no images", replaced("['*.io', 'docker.io']", "[]"), "matchImages"},
		{"no image", replaced("'*.io'", "'a.io:x y'"), "matchImages"},
		{"no duration", replaced("defaultCacheDuration: 10m", "defaultCacheDuration: null"), "defaultCacheDuration is required"},
		{"a negative duration", replaced("10m", "-1s"), "must not be negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "config.yaml"), tc.text, 0o600)
			k, err := New(Config{PluginConfig: path, PluginDir: "/nowhere"})
			switch {
			case tc.want == "" && (err != nil || len(k.plugins) != 1):
				t.Errorf("%v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v; want an error with %q", err, tc.want)
			}
		})
	}
}

// TestProviderDirectory: the files of a directory are one configuration, in the order of their names.
func TestProviderDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "20.yaml"), providers("b"), 0o600)
	write(t, filepath.Join(dir, "10.yml"), providers("c", "a"), 0o600)
	write(t, filepath.Join(dir, "README"), "not one", 0o600)
	if err := os.Mkdir(filepath.Join(dir, "d.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	k, err := New(Config{PluginConfig: dir})
	if err != nil {
		t.Fatal(err)
	}
	var names string
	for _, p := range k.plugins {
		names += p.name
	}
	if names != "cab" {
		t.Errorf("plugins %q", names)
	}
	write(t, filepath.Join(dir, "30.json"), providers("a"), 0o600)
	if _, err := New(Config{PluginConfig: dir}); err == nil || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("the same provider in two files: %v", err)
	}
	if _, err := New(Config{PluginConfig: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "has no providers") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := New(Config{PluginConfig: filepath.Join(dir, "none")}); err == nil {
		t.Error("no configuration is no error")
	}
}

// TestConfigInfo: the metric has the kubelet's hash of the configuration: of each file, its length in eight bytes, then its
// bytes. Without a configuration, or with a wrong one, there is no series.
func TestConfigInfo(t *testing.T) {
	const name = "kubelet_credential_provider_config_info"
	info := func(path string) *prometheus.Registry {
		registry := prometheus.NewRegistry()
		if _, err := New(Config{PluginConfig: path, Metrics: registry}); err != nil && !strings.Contains(err.Error(), "has no providers") {
			t.Fatal(err)
		}
		return registry
	}
	const head = "{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: [{name: "
	const tail = ", matchImages: [a.io], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}]}"
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "1.yaml"), head+"a"+tail, 0o600)
	write(t, filepath.Join(dir, "2.yaml"), head+"b"+tail, 0o600)
	for path, want := range map[string]string{
		one: "sha256:d31d84eb7b71352e7796abb2e528ec303e52cbf407a0820fc7ac6ef03fdaa6e9",
		dir: "sha256:c028ed4c79dc864c5ec43ea619b744dda8c1a14aa6b29986b07351fd62053a0a",
	} {
		registry := info(path)
		if metrictest.Value(t, registry, name, "hash", want) != 1 || metrictest.Count(t, registry, name) != 1 {
			t.Errorf("%s: there is no hash %s", path, want)
		}
	}
	for _, path := range []string{"", t.TempDir()} {
		if got := metrictest.Count(t, info(path), name); got != 0 {
			t.Errorf("the configuration %q has %d hashes", path, got)
		}
	}
}
