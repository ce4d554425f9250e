package service_test

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestInspectorFindings: an inspector receives findings about fields near a secret without the secret.
func TestInspectorFindings(t *testing.T) {
	const secret = "hunter2hunter2"
	n := start(t, options{})
	pod := func(container string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: i, " + container + "}]}}"
	}
	mistakes := map[string]string{
		"env isn't a list":              pod("env: " + secret),
		"env is a map":                  pod("env: {PASSWORD: " + secret + "}"),
		"a value is a list":             pod("env: [{name: A, value: [" + secret + "]}]"),
		"a value is in the wrong field": pod("env: [{name: A, valueFrom: " + secret + "}]"),
		"value and valueFrom":           pod("env: [{name: A, value: " + secret + ", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
		"args isn't a list":             pod("args: " + secret),
		"command isn't a list":          pod("command: " + secret),
		"a header is wrong":             pod("livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: 'a b', value: " + secret + "}]}}"),
		"an unknown field":              pod("password: " + secret),
		"a bad quantity":                pod("resources: {limits: {cpu: " + secret + "}}"),
		"no YAML":                       pod("env: [{name: A, value: " + secret)[:120],
		"a tab":                         "a:\n\tb: " + secret,
		"bad indentation":               "env:\n - name: A\n   value: " + secret + "\n  x: y",
		"text only":                     secret,
		"an annotation's name":          "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {'-': " + secret + "}}, spec: {containers: [{name: m, image: i}]}}",
		"an annotation is a list":       "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {a: [" + secret + "]}}, spec: {containers: [{name: m, image: i}]}}",
		"a doubled field":               pod("env: [{name: A, value: " + secret + ", value: x}]"),
		"not a pod":                     "{apiVersion: v1, kind: Service, metadata: {name: s}, stringData: {p: " + secret + "}}",
		"a broken Secret":               "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: [" + secret + "]}",
	}
	set := manifest.Set{Source: "file"}
	for name, text := range mistakes {
		o := parse("/etc/"+name, []byte(text))
		if len(o.Findings) == 0 {
			t.Errorf("%s is no mistake: the test would prove nothing", name)
		}
		set.Origins = append(set.Origins, o)
	}
	n.hub.Apply(set)
	resp, err := n.as(inspector).api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range resp.GetSources()[0].GetFindings() {
		if strings.Contains(f.String(), secret) {
			t.Errorf("the finding of %s has the secret: %s: %s", f.GetOrigin(), f.GetField(), f.GetMessage())
		}
	}
}
