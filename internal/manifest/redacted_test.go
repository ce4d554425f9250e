package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// secret must not be shown, wherever it is in a manifest.
const secret = "hunter2"

// richPod has a value in every corner that validation looks into.
const richPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: prod, uid: u1, labels: {app: web}, annotations: {note: text}, creationTimestamp: "2020-01-01T00:00:00Z"}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 30
  nodeSelector: {disk: ssd}
  nodeName: node1
  hostname: web
  subdomain: sub
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.1], searches: [example.org], options: [{name: ndots, value: "2"}]}
  hostAliases: [{ip: 10.0.0.2, hostnames: [db]}]
  priorityClassName: high
  runtimeClassName: runc
  os: {name: linux}
  overhead: {cpu: 100m}
  imagePullSecrets: [{name: registry}]
  readinessGates: [{conditionType: example.org/ready}]
  tolerations: [{key: k, operator: Equal, value: v, effect: NoExecute, tolerationSeconds: 3}]
  securityContext:
    runAsUser: 1
    supplementalGroups: [2]
    fsGroupChangePolicy: Always
    seccompProfile: {type: Localhost, localhostProfile: profile.json}
    sysctls: [{name: net.core.somaxconn, value: "1"}]
  volumes:
  - {name: host, hostPath: {path: /data, type: Directory}}
  - {name: empty, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: secret, secret: {secretName: s, defaultMode: 256, items: [{key: k, path: p, mode: 256}]}}
  - {name: config, configMap: {name: c, items: [{key: k, path: p}]}}
  - {name: down, downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}}
  - {name: all, projected: {sources: [{secret: {name: s, items: [{key: k, path: p}]}}]}}
  - {name: picture, image: {reference: r, pullPolicy: Never}}
  - {name: nfs, nfs: {server: s, path: /p}}
  initContainers:
  - {name: init, image: busybox}
  containers:
  - name: main
    image: nginx:1
    imagePullPolicy: Never
    command: [nginx]
    args: ["-g", "daemon off"]
    workingDir: /
    ports: [{name: http, containerPort: 80, hostPort: 80, protocol: TCP, hostIP: 10.0.0.3}]
    env:
    - {name: PASSWORD, value: x}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    - {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}
    - {name: FILE, valueFrom: {fileKeyRef: {volumeName: empty, path: p, key: k}}}
    envFrom: [{prefix: P_, configMapRef: {name: c}}]
    resources: {limits: {cpu: "1", memory: 1Gi, example.org/card: 1}, requests: {cpu: "1"}}
    volumeMounts:
    - {name: host, mountPath: /data, subPath: s, mountPropagation: None, recursiveReadOnly: Disabled}
    livenessProbe:
      httpGet: {path: /, port: http, scheme: HTTP, host: h, httpHeaders: [{name: Authorization, value: x}]}
      periodSeconds: 10
    readinessProbe: {tcpSocket: {port: 80}}
    startupProbe: {grpc: {port: 80, service: s}}
    lifecycle: {postStart: {exec: {command: [sh]}}, preStop: {sleep: {seconds: 1}}}
    terminationMessagePolicy: File
    securityContext: {procMount: Default, capabilities: {add: [NET_ADMIN]}, appArmorProfile: {type: Unconfined}}
status: {phase: Running}
`

// richConfigMap has a value in every corner of a ConfigMap.
const richConfigMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: prod, labels: {app: web}, annotations: {note: text}}
data: {a: text, both: x}
binaryData: {b: AAE=, both: AAE=}
immutable: true
`

// yamlForms are ways in which a secret gets into the place of a key or a value of YAML.
var yamlForms = []string{
	"hunter2", `"hunter2"`, "PASSWORD=hunter2", "*hunter2", "&hunter2 x", "!hunter2 x", "!!int hunter2", "!!float hunter2",
	"!!timestamp hunter2", "!!binary hunter2", "x # hunter2", "'hunter2", "[hunter2", "[hunter2, hunter2]", "{hunter2: hunter2}",
	"{hunter2: 1, hunter2: 2}", "? hunter2", "@hunter2", "%hunter2", "hunter2: x: hunter2", "\thunter2", `"\hunter2"`, "{<<: hunter2}",
	"\"hunter2 \u00e9\"", "../hunter2", "1hunter2", "hunter2é", "*x hunter2", "|hunter2", "- hunter2", "hunter2\n---\nkind: hunter2",
}

// jsonForms are the same of JSON.
var jsonForms = []string{
	`"hunter2"`, `"PASSWORD=hunter2"`, `hunter2`, `"hunter2`, `["hunter2"]`, `{"hunter2": "hunter2"}`, `{"hunter2": 1, "hunter2": 2}`,
	`"\hunter2"`, `"../hunter2"`, `'hunter2'`, `1hunter2`,
}

// TestRedactedQuotesNothing puts a secret in the place of each key and of each value of a manifest, in many ways, and
// looks for it in the findings for inspectors.
func TestRedactedQuotesNothing(t *testing.T) {
	quoted, quoting := 0, map[Severity]bool{}
	check := func(text string, opts Options) {
		o := Parse([]byte(text), opts)
		for _, f := range o.Findings {
			if strings.Contains(f.Message+f.Field, secret) {
				quoted++
				quoting[f.Severity] = true
			}
			if r := f.Redacted(); strings.Contains(fmt.Sprint(r), secret) || r.Message == "" {
				t.Errorf("an inspector is told %q of field %q, of\n%s", r.Message, r.Field, text)
			}
		}
	}
	strict := fileOptions
	strict.Strict = true
	list := Options{Origin: "https://config.example/pods", OriginKind: URLKind, Node: "node1"}
	for i, text := range marked(t, richPod, yamlForms, 10, false) {
		check(text, []Options{fileOptions, strict}[i%2])
	}
	for i, text := range marked(t, richConfigMap, yamlForms, 1, false) {
		check(text, []Options{fileOptions, strict}[i%2])
	}
	for i, text := range marked(t, richConfigMap, jsonForms, 1, true) {
		check(text, []Options{fileOptions, strict}[i%2])
	}
	for i, text := range marked(t, richPod, jsonForms, 6, true) {
		check(text, []Options{fileOptions, strict}[i%2])
		check(`{"apiVersion": "v1", "kind": "PodList", "items": [`+text+`]}`, list)
	}
	for _, item := range []string{`"hunter2"`, `{"kind": "hunter2"}`, `{"apiVersion": "hunter2"}`, `{"kind": {"hunter2": 1}}`} {
		check(`{"apiVersion": "v1", "kind": "PodList", "items": [`+item+`], "hunter2": 1}`, list)
	}
	if quoted < 1000 || !quoting[Error] || !quoting[Warning] {
		t.Errorf("%d findings quote the secret to consumers, of severities %v; want a thousand: the test would prove little", quoted, quoting)
	}
}

// marked are copies of a manifest, each with a key or a value replaced by one of the forms, or with a field more in
// one of its objects. Each place gets one in step of the forms, the next place the ones after those.
func marked(t *testing.T, manifest string, forms []string, step int, asJSON bool) []string {
	t.Helper()
	const place = "PLACEHOLDER"
	var root yamlv3.Node
	if err := yamlv3.Unmarshal([]byte(manifest), &root); err != nil {
		t.Fatal(err)
	}
	var out []string
	places := 0
	write := func() {
		text, err := yamlv3.Marshal(&root)
		if err == nil && asJSON {
			text, err = yaml.YAMLToJSON(text)
			text = bytes.ReplaceAll(text, []byte(`"`+place+`"`), []byte(place))
		}
		if err != nil {
			t.Fatal(err)
		}
		places++
		for i := places % step; i < len(forms); i += step {
			out = append(out, strings.ReplaceAll(string(text), place, forms[i]))
		}
	}
	var visit func(n *yamlv3.Node)
	visit = func(n *yamlv3.Node) {
		was := *n
		if n.Kind == yamlv3.ScalarNode || n.Kind == yamlv3.MappingNode || n.Kind == yamlv3.SequenceNode {
			*n = yamlv3.Node{Kind: yamlv3.ScalarNode, Value: place}
			write()
			*n = was
		}
		if n.Kind == yamlv3.MappingNode {
			n.Content = append(slices.Clone(was.Content), &yamlv3.Node{Kind: yamlv3.ScalarNode, Value: place},
				&yamlv3.Node{Kind: yamlv3.ScalarNode, Value: place})
			write()
			n.Content = was.Content
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(&root)
	return out
}

// TestRedacted: a redacted finding keeps what helps and doesn't quote the manifest.
func TestRedacted(t *testing.T) {
	pod := func(spec string) string { return smallPod + spec }
	for _, tc := range []struct{ name, text, field, message string }{
		{"an alias", pod("    env: [{name: A, value: *hunter2}]\n"), "", "this isn't valid YAML: unknown anchor '(redacted)' referenced"},
		{"YAML", pod("    env: [{name: A, value: 'hunter2}]\n"), "", "this isn't valid YAML: near line 9: found unexpected end of stream"},
		{"JSON", "{\n\"hunter2\": x]", "", "line 2: this isn't valid JSON: invalid character (redacted) looking for beginning of value"},
		{"an env name", pod("    env: [{name: A=hunter2}]\n"), "spec.containers[0].env[0].name",
			"Invalid value: a valid environment variable name must consist only of printable ASCII characters other than '='"},
		{"an unknown field", pod("    hunter2: x\n"), "spec.containers[0]", "one of its members: isn't a field of v1.Pod: it is ignored"},
		{"a doubled key", pod("  nodeSelector: {hunter2: a, hunter2: b}\n"), "spec.nodeSelector",
			"one of its members: is set twice, again in line 9: the last one counts"},
		{"a type", pod("    env: {A: hunter2}\n"), "spec.containers[0].env", "is an object where a list is wanted"},
		{"a quantity", pod("    resources: {limits: {hunter2: x}}\n"), "spec.containers[0].resources.limits",
			"one of its members: this isn't a v1 Pod: (redacted)"},
		{"a kind", "apiVersion: v1\nkind: hunter2\n", "kind", "kind (redacted) can't run on a node: only v1 Pod, ConfigMap, Secret, PersistentVolumeClaim and PersistentVolume, and storage.k8s.io/v1 CSIDriver documents are read"},
		{"a List", "apiVersion: v1\nkind: List\n", "kind", "kind List (v1) isn't read from a file: write each of its items as a document of its own"},
		{"an empty file", "", "", "the file is empty: it has no document; remove it if its pods are to go"},
		{"a root field", "hunter2: x\n" + smallPod, "", "one of its members: isn't a field of v1.Pod: it is ignored"},
		{"a choice", pod("  restartPolicy: hunter2\n"), "spec.restartPolicy", `Unsupported value: supported values: "Always", "OnFailure", "Never"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Parse([]byte(tc.text), fileOptions)
			if len(o.Findings) == 0 {
				t.Fatal("there is no finding")
			}
			got := o.Findings[0].Redacted()
			if got.Field != tc.field || got.Message != tc.message {
				t.Errorf("field %q, message %q; want %q, %q", got.Field, got.Message, tc.field, tc.message)
			}
		})
	}
}

func TestKnownPath(t *testing.T) {
	for path, want := range map[string]string{
		"":                                         "",
		"kind":                                     "kind",
		"metadata.name":                            "metadata.name",
		"metadata.labels.app":                      "metadata.labels",
		"metadata.labels[12]":                      "metadata.labels",
		"metadata.creationTimestamp":               "metadata.creationTimestamp",
		"metadata.creationTimestamp.x":             "metadata.creationTimestamp",
		"spec.containers[0].env[12].name":          "spec.containers[0].env[12].name",
		"spec.containers[0].env[12].name.x":        "spec.containers[0].env[12].name",
		"spec.containers.x":                        "spec.containers",
		"spec.containers[x]":                       "spec.containers",
		"spec.containers[0":                        "spec.containers",
		"spec.containers[]":                        "spec.containers",
		"spec.containers[0].limits[cpu]":           "spec.containers[0]",
		"spec.containers[0].resources.limits[cpu]": "spec.containers[0].resources.limits",
		"spec.volumes[1].emptyDir.sizeLimit":       "spec.volumes[1].emptyDir.sizeLimit",
		"spec.volumes[1].emptyDir.sizeLimit.s":     "spec.volumes[1].emptyDir.sizeLimit",
		"items[3].spec.containers[0].image":        "items[3].spec.containers[0].image",
		"items[3].items[4]":                        "items[3]",
		"items":                                    "items",
		"spec.Containers":                          "spec",
		"Pod":                                      "",
		".":                                        "",
		"..":                                       "",
		"spec.":                                    "spec",
		"specx":                                    "",
	} {
		if got := knownPath(path); got != want {
			t.Errorf("of %q %q is known; want %q", path, got, want)
		}
	}
}
