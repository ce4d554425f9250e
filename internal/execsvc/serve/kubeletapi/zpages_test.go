package kubeletapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/metrictest"
)

// withPages starts a Server with both pages.
func withPages(t *testing.T) *node {
	return start(t, func(c *Config) {
		everything(t, c)
		c.Pages = Pages{Version: "1.37.2-podstream", Emulation: "1.37", Flags: func() map[string]string { return map[string]string{"b": "2", "a": "x y"} }}
		c.Checks = map[string]func() error{"syncloop": func() error { return errors.New("stuck") }}
	})
}

// getAs requests a page as the administrator, with that Accept header.
func (n *node) getAs(path, accept string) (*http.Response, string) {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "https://"+n.address+path, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := n.admin().Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return response, string(text)
}

func TestPagesAsText(t *testing.T) {
	n := withPages(t)
	for _, accept := range []string{"", "*/*", "text/plain", "image/png, text/*;q=0.5"} {
		response, status := n.getAs("/statusz", accept)
		if got := response.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" || !strings.HasPrefix(status, "\nkubelet statusz\n") {
			t.Errorf("accepting %q: %s\n%s", accept, got, status)
		}
		for _, want := range []string{"\nUp: 0 hr 00 min ", "\nBinary version: 1.37.2-podstream\n", "\nGo version: go1", " /healthz ", " /metrics ", " /flagz "} {
			if !strings.Contains(status, want) {
				t.Errorf("/statusz has no %q:\n%s", want, status)
			}
		}
	}
	if _, flags := n.getAs("/flagz/", ""); !strings.HasPrefix(flags, "\nkubelet flagz\n") || !strings.HasSuffix(flags, "\na=x y\nb=2\n") {
		t.Errorf("/flagz is\n%s", flags)
	}
}

func TestPagesAsObjects(t *testing.T) {
	n := withPages(t)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		kind := ";g=config.k8s.io;v=" + version
		response, text := n.getAs("/statusz", "application/json;as=Statusz"+kind+", text/plain")
		var got struct {
			Kind, APIVersion, BinaryVersion, StartTime string
			Metadata                                   struct{ Name string }
			Paths                                      []string
			Flags                                      map[string]string
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if got.Kind != "Statusz" || got.APIVersion != "config.k8s.io/"+version || got.BinaryVersion != "1.37.2-podstream" || got.Metadata.Name != "kubelet" ||
			got.StartTime == "" || len(got.Paths) < 5 {
			t.Errorf("the object is %s", text)
		}
		if old := response.Header.Get("Warning") != ""; old != (version == "v1alpha1") {
			t.Errorf("version %s has the warning %q", version, response.Header.Get("Warning"))
		}
		_, text = n.getAs("/flagz", "application/yaml;as=Flagz"+kind)
		got.Paths, got.Flags = nil, nil
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(map[string]string{"a": "x y", "b": "2"}, got.Flags); diff != "" || got.Kind != "Flagz" || strings.Contains(text, "startTime") {
			t.Errorf("flags (-want +got):\n%s\n%s", diff, text)
		}
	}
	for _, accept := range []string{
		"application/json", "application/json;as=Flagz;g=config.k8s.io;v=v1beta1", "application/json;as=Statusz;g=config.k8s.io;v=v2", "image/png",
		"application/cbor", "text/plain;as=Statusz;g=config.k8s.io;v=v1beta1", ";;;",
	} {
		if response, text := n.getAs("/statusz", accept); response.StatusCode != http.StatusNotAcceptable {
			t.Errorf("accepting %q: %d %s", accept, response.StatusCode, text)
		}
	}
}

// A page that is off, and all without debugging handlers, don't exist. Each needs its own permission.
func TestPagesOff(t *testing.T) {
	n := start(t, func(c *Config) { everything(t, c); c.Pages.Version = "1" })
	if response, _ := n.getAs("/flagz", ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("/flagz: %d", response.StatusCode)
	}
	bare := start(t, func(c *Config) { everything(t, c); c.Pages.Version, c.Debug.Handlers = "1", false })
	if response, _ := bare.getAs("/statusz", ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("/statusz without debugging handlers: %d", response.StatusCode)
	}
}

// /metrics/slis has the results of the checks of /healthz.
func TestSLIs(t *testing.T) {
	n := withPages(t)
	for range 2 {
		n.getAs("/healthz", "")
	}
	metrictest.Want(t, n.slis.registry, map[string]float64{
		"kubernetes_healthcheck{name=ping,type=healthz}": 1, "kubernetes_healthcheck{name=syncloop,type=healthz}": 0,
		"kubernetes_healthchecks_total{name=ping,status=success}": 2, "kubernetes_healthchecks_total{name=syncloop,status=error}": 2,
	})
	if _, text := n.getAs("/metrics/slis", ""); !strings.Contains(text, `kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2`) ||
		!strings.Contains(text, "process_start_time_seconds") {
		t.Errorf("/metrics/slis is\n%s", text)
	}
}
