package cridiff

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Trace has what one agent did: by the pod's UID, then by the step, for example "CreateContainer app". Of a step that
// the agent repeats, it has the first request. A request that sets resources counts as often as it is made: the last one
// has the plain name of the step.
type Trace map[string]map[string]Fields

// Fields are the fields of a request that are set, by path: "config.linux.resources.cpuShares". An empty message is a
// field with the value {}.
type Fields map[string]string

// noPod stands for the UID of a request that names no pod.
const noPod = "no pod"

// Steps that are no requests.
const (
	// orderStep has the names of the pod's other steps, but pulls and probes, in the order of Proxy.Calls.
	orderStep = "order"
	// outcomeStep has what the agent's API says of a pod that doesn't run. A pod that the agent doesn't know has no such
	// step: its manifest was refused.
	outcomeStep = "outcome"
	// filesStep has the pod's hosts file and volumes.
	filesStep = "files"
	// insideStep, with the name of a container, has what its process finds. cgroupStep has the files of the cgroups of the
	// pod, of its containers, and of all pods of its QoS class.
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
	// removals: the trace has what the agent removes. attempts: it has what the agent does with restarted containers,
	// which are named "app #1".
	removals, attempts bool
}

// newTracer returns a tracer whose trace has values replaced that are the agent's own: paths, and each pod's IPs.
func newTracer(replace *strings.Replacer, ips map[string][]string, removals bool) *tracer {
	ofGiven := map[string][]string{}
	for uid, list := range ips {
		ofGiven[replace.Replace(uid)] = list
	}
	return &tracer{
		trace: Trace{}, order: map[string][]string{}, pods: map[string]string{}, containers: map[string]containerKey{}, replace: replace,
		ips: ofGiven, removals: removals,
	}
}

// add adds a call. One for an unknown pod is an error: nothing is left out in silence.
func (t *tracer) add(c *Call) error {
	if removal[c.Method] && !t.removals {
		return nil
	}
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
		if !sets[c.Method] {
			return nil
		}
		t.demote(uid, step)
	}
	if _, pull := req.(*runtimeapi.PullImageRequest); !pull {
		t.order[uid] = append(t.order[uid], step)
	}
	if err := t.put(uid, step, req); err != nil {
		return err
	}
	if c.Err != "" {
		t.trace[uid][step][errorPath] = t.withoutIDs(c.Err)
	}
	return nil
}

// errorPath is the path of the error of a request that failed. No message has such a field.
const errorPath = "(error)"

// sets are the methods that set resources.
var sets = map[string]bool{"UpdateContainerResources": true, "UpdatePodSandboxResources": true}

// demote gives the step the name of one that wasn't the last.
func (t *tracer) demote(uid, step string) {
	n, earlier := 1, ""
	for taken := true; taken; n++ {
		earlier = fmt.Sprintf("%s (earlier %d)", step, n)
		_, taken = t.trace[uid][earlier]
	}
	t.trace[uid][earlier] = t.trace[uid][step]
	t.order[uid][slices.Index(t.order[uid], step)] = earlier
}

// removal are the methods that remove what has ended.
var removal = map[string]bool{"RemoveContainer": true, "RemovePodSandbox": true}

// of returns the UID of the call's pod, and the container, the image or the command. It replaces IDs, which are the
// runtime's.
func (t *tracer) of(req, resp proto.Message) (uid, name string) {
	switch req := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		uid := t.replace.Replace(req.GetConfig().GetMetadata().GetUid())
		t.pods[resp.(*runtimeapi.RunPodSandboxResponse).GetPodSandboxId()] = uid
		return uid, ""
	case *runtimeapi.CreateContainerRequest:
		key := containerKey{t.replace.Replace(req.GetSandboxConfig().GetMetadata().GetUid()), req.GetConfig().GetMetadata().GetName()}
		if n := req.GetConfig().GetMetadata().GetAttempt(); t.attempts && n > 0 {
			key.name += fmt.Sprintf(" #%d", n)
		}
		t.containers[resp.(*runtimeapi.CreateContainerResponse).GetContainerId()] = key
		req.PodSandboxId = "SANDBOX"
		return key.uid, key.name
	case *runtimeapi.PullImageRequest:
		return cmp.Or(t.replace.Replace(req.GetSandboxConfig().GetMetadata().GetUid()), noPod), req.GetImage().GetImage()
	case *runtimeapi.RemoveImageRequest:
		return noPod, req.GetImage().GetImage()
	case *runtimeapi.UpdateRuntimeConfigRequest:
		return noPod, ""
	}
	if id, ok := takeID(req, "pod_sandbox_id", "SANDBOX"); ok {
		return t.pods[id], ""
	}
	id, _ := takeID(req, "container_id", "CONTAINER")
	key := t.containers[id]
	if exec, ok := req.(*runtimeapi.ExecSyncRequest); ok {
		return key.uid, execOf(key.name, exec.GetCmd())
	}
	return key.uid, key.name
}

// execOf returns the name of a command in a container. A container runs several.
func execOf(container string, command []string) string {
	return container + " " + strings.Join(command, " ")
}

// takeID replaces the field, and returns its value.
func takeID(m proto.Message, field protoreflect.Name, by string) (id string, ok bool) {
	fields := m.ProtoReflect()
	f := fields.Descriptor().Fields().ByName(field)
	if f == nil {
		return "", false
	}
	id = fields.Get(f).String()
	fields.Set(f, protoreflect.ValueOfString(by))
	return id, true
}

// withoutIDs replaces IDs in the text of an error: those of sandboxes, containers and commands.
func (t *tracer) withoutIDs(text string) string {
	for id := range t.pods {
		if id != "" {
			text = strings.ReplaceAll(text, id, "SANDBOX")
		}
	}
	for id := range t.containers {
		if id != "" {
			text = strings.ReplaceAll(text, id, "CONTAINER")
		}
	}
	return t.replace.Replace(longID.ReplaceAllString(text, "ID"))
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

// named returns a tree whose keys have names instead of the runtime's IDs.
func (t *tracer) named(of tree) tree {
	names := make(tree, len(of))
	for key, v := range of {
		names[longID.ReplaceAllStringFunc(key, func(id string) string {
			if c, ok := t.containers[id]; ok {
				return c.name
			}
			if _, ok := t.pods[id]; ok {
				return "SANDBOX"
			}
			return id
		})] = v
	}
	return names
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
