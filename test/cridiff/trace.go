package cridiff

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Trace has what one agent did: by the pod's UID, then by the step, for example "CreateContainer app". Of a step that
// the agent repeats, it has the first request.
type Trace map[string]map[string]Fields

// Fields are the fields of a request that are set, by path: "config.linux.resources.cpuShares". An empty message is a
// field with the value {}.
type Fields map[string]string

// noPod stands for the UID of a pull that names no pod.
const noPod = "no pod"

// Steps that are no requests.
const (
	// orderStep has the names of the pod's other steps but pulls, in the order of their ends.
	orderStep = "order"
	// outcomeStep has what the agent's API says of a pod that doesn't run. A pod that the agent doesn't know has no such
	// step: its manifest was refused.
	outcomeStep = "outcome"
	// filesStep has the pod's hosts file and volumes.
	filesStep = "files"
	// insideStep, with the name of a container, has what its process finds. cgroupStep has the files of the pod's
	// cgroups, without the containers'.
	insideStep, cgroupStep = "inside ", "cgroups"
)

type containerKey struct{ uid, name string }

type tracer struct {
	trace      Trace
	order      map[string][]string     // steps by UID
	pods       map[string]string       // UIDs by sandbox ID
	containers map[string]containerKey // by container ID
	replace    *strings.Replacer
	ips        map[string][]string // by UID
}

// newTracer returns a tracer whose trace has values replaced that are the agent's own: paths, and each pod's IPs.
func newTracer(replace *strings.Replacer, ips map[string][]string) *tracer {
	return &tracer{
		trace: Trace{}, order: map[string][]string{}, pods: map[string]string{}, containers: map[string]containerKey{}, replace: replace,
		ips: ips,
	}
}

// add adds a call. One for an unknown pod is an error: nothing is left out in silence.
func (t *tracer) add(c *Call) error {
	req, resp, err := c.messages()
	if err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	uid, name := t.of(req, resp)
	if uid == "" {
		return fmt.Errorf("%s of no known pod: %v", c.Method, req)
	}
	step := strings.TrimSpace(c.Method + " " + name)
	if _, again := t.trace[uid][step]; again {
		return nil
	}
	if _, pull := req.(*runtimeapi.PullImageRequest); !pull {
		t.order[uid] = append(t.order[uid], step)
	}
	return t.put(uid, step, req)
}

// of returns the UID of the call's pod, and the container or image. It replaces IDs, which are the runtime's.
func (t *tracer) of(req, resp proto.Message) (uid, name string) {
	var key containerKey
	switch req := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		uid := req.GetConfig().GetMetadata().GetUid()
		t.pods[resp.(*runtimeapi.RunPodSandboxResponse).GetPodSandboxId()] = uid
		return uid, ""
	case *runtimeapi.CreateContainerRequest:
		key = containerKey{req.GetSandboxConfig().GetMetadata().GetUid(), req.GetConfig().GetMetadata().GetName()}
		t.containers[resp.(*runtimeapi.CreateContainerResponse).GetContainerId()] = key
		req.PodSandboxId = "SANDBOX"
	case *runtimeapi.PullImageRequest:
		uid := req.GetSandboxConfig().GetMetadata().GetUid()
		if uid == "" {
			uid = noPod
		}
		return uid, req.GetImage().GetImage()
	case *runtimeapi.StopPodSandboxRequest:
		uid, req.PodSandboxId = t.pods[req.GetPodSandboxId()], "SANDBOX"
		return uid, ""
	case *runtimeapi.UpdatePodSandboxResourcesRequest:
		uid, req.PodSandboxId = t.pods[req.GetPodSandboxId()], "SANDBOX"
		return uid, ""
	case *runtimeapi.StartContainerRequest:
		key, req.ContainerId = t.containers[req.GetContainerId()], "CONTAINER"
	case *runtimeapi.StopContainerRequest:
		key, req.ContainerId = t.containers[req.GetContainerId()], "CONTAINER"
	case *runtimeapi.UpdateContainerResourcesRequest:
		key, req.ContainerId = t.containers[req.GetContainerId()], "CONTAINER"
	}
	return key.uid, key.name
}

// addOrder adds the order of each pod's steps. Main containers are stopped together, in no order.
func (t *tracer) addOrder(batches [][]*v1.Pod) {
	for _, pod := range slices.Concat(batches...) {
		uid := string(pod.UID)
		steps := t.order[uid]
		if len(steps) == 0 {
			continue
		}
		atOnce := func(step string) bool {
			name, ok := strings.CutPrefix(step, "StopContainer ")
			return ok && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
		}
		for from := 0; from < len(steps); from++ {
			to := from
			for to < len(steps) && atOnce(steps[to]) {
				to++
			}
			slices.Sort(steps[from:max(from, to)])
			from = max(from, to)
		}
		fields := Fields{}
		for i, step := range steps {
			fields[fmt.Sprintf("[%d]", i)] = step
		}
		t.trace[uid][orderStep] = fields
	}
}

// addOutcome adds what became of a pod, and its files if it has any.
func (t *tracer) addOutcome(pod *v1.Pod, files Fields) {
	t.putFields(string(pod.UID), outcomeStep, outcomeOf(pod))
	if len(files) == 0 {
		return
	}
	for path, text := range files {
		files[path] = t.ownIP(string(pod.UID), text)
	}
	t.trace[string(pod.UID)][filesStep] = files
}

// put adds the fields of a request.
func (t *tracer) put(uid, step string, req proto.Message) error {
	text, err := protojson.Marshal(req)
	if err != nil {
		return err
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return err
	}
	t.putFields(uid, step, tree)
	return nil
}

func (t *tracer) putFields(uid, step string, tree any) {
	if t.trace[uid] == nil {
		t.trace[uid] = map[string]Fields{}
	}
	fields := Fields{}
	t.flatten(fields, "", tree)
	for path, text := range fields {
		fields[path] = t.ownIP(uid, text)
	}
	t.trace[uid][step] = fields
}

// ownIP replaces the pod's IPs.
func (t *tracer) ownIP(uid, text string) string {
	for i, ip := range t.ips[uid] {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(ip)+`\b`).ReplaceAllString(text, fmt.Sprintf("POD-IP%d", i))
	}
	return text
}

// envValue matches the path of a variable's value, which is encoded.
var envValue = regexp.MustCompile(`\.envs\[\d+\]\.value$`)

func (t *tracer) flatten(into Fields, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			t.flatten(into, strings.TrimPrefix(path+"."+key, "."), value)
		}
		if len(v) == 0 {
			into[path] = "{}"
		}
	case []any:
		for i, value := range v {
			t.flatten(into, fmt.Sprintf("%s[%d]", path, i), value)
		}
	default:
		text := fmt.Sprint(v)
		if envValue.MatchString(path) {
			if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
				text = string(decoded)
			}
		}
		into[path] = t.replace.Replace(text)
	}
}
