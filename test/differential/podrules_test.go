package differential

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// podExamples have a pod for each of PodRules: the content of its metadata, spec, container and status in
// addition to the required fields.
var podExamples = map[string]struct{ metadata, spec, container, status string }{
	"kindOfPod":                 {},
	"uidOfManifest":             {},
	"metadataOfServer":          {metadata: "finalizers: [example.com/hold]"},
	"metadataOfServerInvalid":   {metadata: "finalizers: [hold]"},
	"annotationsOfNode":         {metadata: "annotations: {kubernetes.io/config.mirror: x}"},
	"statusOfManifest":          {status: "podIP: 10.0.0.1"},
	"statusInvalid":             {status: "podIP: 1"},
	"objectsBesideManifests":    {spec: "imagePullSecrets: [{name: registry}]"},
	"otherNode":                 {spec: "nodeName: node2"},
	"uidOfDirectory":            {metadata: "uid: a/b"},
	"mediumThatNeverIs":         {spec: "volumes: [{name: v, emptyDir: {medium: Bogus}}]"},
	"seccompProfileWithoutName": {spec: `securityContext: {seccompProfile: {type: Localhost, localhostProfile: ""}}`},
	"pullPolicyOfNoImage":       {container: "image: A_B"},
	"seLinuxMountOption":        {spec: "securityContext: {seLinuxChangePolicy: MountOption}"},
	"restartAllContainers": {
		container: "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [1]}}], restartPolicy: Never",
	},
	"workloadRef":            {spec: "workloadRef: {name: A}"},
	"workloadRefInvalid":     {spec: "workloadRef: {name: 1}"},
	"workloadRefContent":     {spec: "workloadRef: {name: a, podGroup: a}"},
	"sysAdminWithoutPrefix":  {container: "securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [SYS_ADMIN]}}"},
	"resizeOfInitContainer":  {spec: "initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]"},
	"imageVolumeWithoutName": {spec: "volumes: [{name: v, image: {}}]"},
}

// exampleOf returns the pod of an example.
func exampleOf(t *testing.T, name string) *Mutant {
	t.Helper()
	e := podExamples[name]
	container := e.container
	if !strings.HasPrefix(container, "image:") {
		container = strings.TrimPrefix("image: i, "+container, ", ")
	}
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n"
	if e.metadata != "" {
		text += "  " + e.metadata + "\n"
	}
	text += "spec:\n"
	if e.spec != "" {
		text += "  " + e.spec + "\n"
	}
	text += "  containers: [{name: web, " + strings.TrimSuffix(container, ", ") + "}]\n"
	if e.status != "" {
		text += "status: {" + e.status + "}\n"
	}
	m := &Mutant{Base: name}
	if err := yaml.Unmarshal([]byte(text), &m.Tree); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var err error
	if m.Manifest, err = manifestOf(m.Tree); err != nil {
		t.Fatal(err)
	}
	return m
}

// alwaysThere are the rules that explain a difference of every pod that runs.
var alwaysThere = []string{"kindOfPod", "uidOfManifest"}

// TestPodRules: each rule explains a difference of its example, and no other rule does except those in
// alwaysThere.
func TestPodRules(t *testing.T) {
	var names []string
	for _, r := range PodRules {
		names = append(names, r.Name)
	}
	if got, want := slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(podExamples)); !slices.Equal(got, want) {
		t.Fatalf("rules %v, examples %v", got, want)
	}
	compare := comparer(t)
	for _, name := range names {
		m := exampleOf(t, name)
		explained := map[string]bool{}
		for _, d := range compare(m) {
			rule := explain(m, d)
			if rule == "" {
				t.Errorf("%s: no rule explains %s", name, d)
			}
			explained[rule] = true
		}
		for rule := range explained {
			if rule != name && !slices.Contains(alwaysThere, rule) {
				t.Errorf("%s: rule %s explains something of it", name, rule)
			}
		}
		if !explained[name] {
			t.Errorf("%s: there is no such difference, but %v", name, slices.Sorted(maps.Keys(explained)))
		}
	}
}

// comparer starts a Parser for the test, and returns a function that compares one pod.
func comparer(t *testing.T) func(m *Mutant) []PodDifference {
	t.Helper()
	parser := startParser(t)
	return func(m *Mutant) []PodDifference {
		t.Helper()
		if err := parser.Send([]Manifest{m.Manifest}); err != nil {
			t.Fatal(err)
		}
		answers, err := parser.Answers()
		if err != nil {
			t.Fatal(err)
		}
		differences, err := ComparePod(Kubelet(m.Manifest), answers[0])
		if err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		return differences
	}
}

func startParser(t *testing.T) *Parser {
	t.Helper()
	program, err := parsepodsProgram()
	if err != nil {
		t.Fatal(err)
	}
	parser, err := StartParser(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := parser.Close(); err != nil {
			t.Error(err)
		}
	})
	return parser
}
