package manifest

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest/validate"
)

const (
	// MaxSize is the maximum size of one origin: 10 MiB, as the kubelet reads of a file or a response.
	MaxSize = 10 << 20
	// MaxPodSize is the maximum size of one encoded pod in any format of podconfig.v1.
	MaxPodSize = 3 << 19
	// maxDocuments is how many documents, or items of a list, are read of one origin. No node runs as many pods.
	maxDocuments = 10000
)

// Kind is the kind of an origin.
type Kind int

const (
	// FileKind is a manifest file. Its pods' UIDs depend on the node and the path, and its pods tolerate every
	// NoExecute taint, since they can't be started elsewhere.
	FileKind Kind = iota
	// URLKind is the body of a response. Its pods' UIDs depend on the URL only. It may be a v1 PodList.
	URLKind
)

// Options describe the origin and the node.
type Options struct {
	// Origin is the file's path or the URL. It becomes Origin.Name and goes into the UIDs.
	Origin string
	// OriginKind is FileKind if zero.
	OriginKind Kind
	// Node is the node's name: the suffix of each pod's name, and its spec.nodeName.
	Node string
	// Strict makes unknown and doubled fields errors. Otherwise they are warnings, and of a doubled field the last
	// one counts.
	Strict bool
	// OwnMetadata makes a UID and the annotations of the node and of Podstream errors. Otherwise such an annotation is a
	// warning, and a UID is used.
	OwnMetadata bool
}

// Parse reads the pods and objects of one origin. It never fails: each problem is a Finding. A document with an Error
// finding yields none and makes the origin Held; the other documents are still read. The same data and options always
// give an equal Origin.
func Parse(data []byte, opts Options) *Origin {
	p := &parser{opts: opts, origin: &Origin{Name: opts.Origin}}
	if len(data) > MaxSize {
		p.report(0).errorf("", "it is larger than %d MiB", MaxSize>>20)
		return p.origin
	}
	defer p.close()
	defer waitTurn(len(data))()
	count := 0
	for d := range split(data) {
		if d.read(); d.empty {
			continue
		}
		if count == maxDocuments {
			p.report(0).errorf("", "it has more than %d documents: the rest isn't read", maxDocuments)
			break
		}
		count++
		r := p.report(count)
		r.line = d.firstLine()
		p.document(d, r)
		r.close()
	}
	if count == 0 {
		p.report(0).errorf("", "the %s is empty: it has no document; remove it if its pods are to go", p.place())
	}
	return p.origin
}

// Broken returns an origin that exists but couldn't be read. All callers that may see the origin's name see err.
func Broken(name string, err error) *Origin {
	p := &parser{origin: &Origin{Name: name}}
	// Unread content can't be quoted.
	p.report(0).reject("", &problem{error: err, unquoted: err.Error()})
	return p.origin
}

// parser collects the contents of one origin.
type parser struct {
	opts   Options
	origin *Origin
	// left counts the findings that were left out because the origin had maxOriginFindings.
	left int
}

func (p *parser) place() word {
	if p.opts.OriginKind == URLKind {
		return "response"
	}
	return "file"
}

// document adds the pods and objects of one document.
func (p *parser) document(d *document, r *report) {
	// An unreadable document may be a Secret.
	r.discreet = true
	if d.err != nil {
		r.reject("", d.err)
		return
	}
	tree, doubled, err := decodeTree(d.json)
	if err != nil {
		r.reject("", err)
		return
	}
	doubled = append(doubled, d.doubled...)
	if d.moreDoubled > 0 {
		r.strict(p.opts.Strict, "", problemf("%d keys are set twice", len(doubled)+d.moreDoubled), "the last one of each counts")
	}
	apiVersion, kind, err := typeOf(tree)
	object, isObject := kindOf(apiVersion, kind)
	r.tree, r.discreet, r.objectless = tree, isDiscreet(kind, doubled), !meansObject(kind)
	switch {
	case err != nil:
		r.reject("", err)
	case apiVersion == "v1" && kind == "Pod":
		p.pod(tree, doubled, r)
	case isObject:
		p.object(object, tree, doubled, r)
	case apiVersion == "v1" && kind == "PodList" && p.opts.OriginKind == URLKind:
		p.list(tree, doubled, r)
	case apiVersion == "v1" && slices.Contains(listKinds, kind):
		r.errorf("kind", "kind %s isn't read from a %s: write each of its items as a document of its own", kindText(apiVersion, kind), p.place())
	default:
		r.errorf("kind", "kind %s can't run on a node: only %s are read", kindText(apiVersion, kind), word(readDocuments))
	}
}

// listKinds are lists of v1 whose items are read only one by one.
var listKinds = []string{"PodList", "List", "ConfigMapList", "SecretList", "PersistentVolumeClaimList", "PersistentVolumeList"}

// list reads a v1 PodList. An invalid item doesn't affect the others.
func (p *parser) list(tree map[string]any, doubled []doubledKey, r *report) {
	items, err := itemsOf(tree)
	if err != nil {
		r.reject("items", err)
		return
	}
	if p.opts.Strict && len(doubled) >= maxDoubled {
		// The keys that aren't reported one by one may be those of any item.
		r.errorf("items", "aren't read: too many of their keys are set twice to tell which items are good")
		return
	}
	if len(items) > maxDocuments {
		r.errorf("items", "are more than %d: the rest isn't read", maxDocuments)
		items = items[:maxDocuments]
	}
	for i, item := range items {
		prefix := fmt.Sprintf("items[%d]", i)
		r := r.within(prefix)
		p.item(item, below(doubled, prefix+"."), len(doubled) >= maxDoubled, r)
		r.close()
	}
}

// item adds the Pod of a list's item. It needs no kind. unsure is set if not all of its doubled keys may be known.
func (p *parser) item(item any, doubled []doubledKey, unsure bool, r *report) {
	object, err := checkItem(item)
	r.tree, r.discreet = object, err != nil || unsure || !looksPod(object) || isDiscreet("Pod", doubled)
	r.objectless = err == nil
	if err != nil {
		r.reject("", err)
		return
	}
	p.pod(object, doubled, r)
}

// pod adds the Pod of one object to the origin, unless there is an Error finding.
func (p *parser) pod(tree map[string]any, doubled []doubledKey, r *report) {
	for _, d := range doubled {
		r.strict(p.opts.Strict, d.path, d.problem(), "the last one counts")
	}
	if path := hugeQuantity(tree); path != "" {
		r.errorf(path, "isn't a quantity that anything can have")
		return
	}
	text, err := encodeTree(tree)
	if err != nil {
		r.reject("", err)
		return
	}
	pod, unknown, err := decodePod(tree, text)
	if err != nil {
		field, why := explain(err, tree)
		r.reject(field, why)
		return
	}
	for _, u := range unknown {
		r.strict(p.opts.Strict, u.path, u.problem, "it is ignored")
	}
	if !isEmpty(tree["status"]) {
		r.warnf("status", "is ignored: only the node knows a pod's status")
	}
	if p.opts.OwnMetadata {
		checkOwn(&pod.ObjectMeta, r)
	}
	errs := validate.AsWritten(pod, fullName(pod.Name, p.opts.Node), p.opts.Node)
	if pod.UID == "" {
		pod.UID = uid(text, p.opts)
	}
	adopt(pod, p.opts, r)
	setDefaults(pod)
	errs = append(errs, validate.Pod(pod)...)
	errs = append(errs, validate.Static(&pod.Spec)...)
	for _, err := range errs {
		r.reject(err.Field, refusal(err))
	}
	if r.failed {
		return
	}
	p.accept(pod, r)
}

// accept measures and digests a valid pod.
func (p *parser) accept(pod *v1.Pod, r *report) {
	if err := checkSize(pod); err != nil {
		r.reject("", err)
		return
	}
	spec, err := SpecDigest(pod)
	if err != nil {
		r.reject("", err)
		return
	}
	status, err := StatusDigest(pod)
	if err != nil {
		r.reject("", err)
		return
	}
	p.origin.Pods = append(p.origin.Pods, &Pod{Pod: pod, Document: r.document, Line: r.line, SpecDigest: spec, StatusDigest: status})
}
