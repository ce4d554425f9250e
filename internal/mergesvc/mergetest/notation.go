package mergetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
)

// Origins reads the notation, one origin a line:
//
//	ORIGIN: POD(KEY=VALUE,…) POD(…) [held] [unready] [error: MESSAGE] [warning: MESSAGE] [ignored: MESSAGE]
//
// POD is the pod's name. The keys are uid (default: the name), ns (default: default), image, phase, node, rv (the
// resourceVersion), deleting (the grace period in seconds; sets a deletionTimestamp), mirror and hash (those
// annotations of kubernetes.io/config), pad (so many KiB in an annotation), label.K, ann.K and env.K (a variable;
// inspectors don't see its value).
func Origins(text string) ([]*manifest.Origin, error) {
	var out []*manifest.Origin
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		o, err := origin(line)
		if err != nil {
			return nil, fmt.Errorf("origin %q: %w", line, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// Set returns the set of a source in the notation, read at the given second of the epoch. It panics on an error in
// the text.
func Set(source string, second int64, text string) manifest.Set {
	origins, err := Origins(text)
	if err != nil {
		panic(err)
	}
	return manifest.Set{Source: source, ReadTime: time.Unix(second, 0), Origins: origins}
}

// Pod returns the pod with its digests.
func Pod(p *v1.Pod) *manifest.Pod {
	spec, err := manifest.SpecDigest(p)
	if err != nil {
		panic(err)
	}
	status, err := manifest.StatusDigest(p)
	if err != nil {
		panic(err)
	}
	return &manifest.Pod{Pod: p, SpecDigest: spec, StatusDigest: status}
}

func origin(line string) (*manifest.Origin, error) {
	name, rest, ok := strings.Cut(line+" ", ": ")
	if !ok {
		return nil, fmt.Errorf("has no colon and space after its name")
	}
	o := &manifest.Origin{Name: name}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		if tag, found := strings.CutPrefix(rest, "["); found {
			if tag, rest, ok = strings.Cut(tag, "]"); !ok {
				return nil, fmt.Errorf("the tag %q isn't closed", tag)
			}
			if err := addTag(o, tag); err != nil {
				return nil, err
			}
			continue
		}
		text, after, ok := strings.Cut(rest, ")")
		if !ok {
			return nil, fmt.Errorf("the pod %q isn't closed", rest)
		}
		p, err := pod(text)
		if err != nil {
			return nil, fmt.Errorf("pod %q: %w", text, err)
		}
		p.Document = len(o.Pods) + 1
		o.Pods, rest = append(o.Pods, p), after
	}
	return o, nil
}

func addTag(o *manifest.Origin, tag string) error {
	switch tag {
	case "held":
		o.Held = true
		return nil
	case "unready":
		o.Unready = true
		return nil
	}
	kind, message, _ := strings.Cut(tag, ": ")
	severity, ok := map[string]manifest.Severity{
		"error": manifest.Error, "warning": manifest.Warning, "ignored": manifest.Ignored,
	}[kind]
	if !ok {
		return fmt.Errorf("the tag %q isn't known", tag)
	}
	o.Findings = append(o.Findings, manifest.Finding{Severity: severity, Message: message})
	return nil
}

func pod(text string) (*manifest.Pod, error) {
	name, args, ok := strings.Cut(text, "(")
	if !ok {
		return nil, fmt.Errorf("has no (")
	}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID(name), Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "pause"}}},
	}
	for _, arg := range strings.Split(args, ",") {
		if arg == "" {
			continue
		}
		key, value, _ := strings.Cut(arg, "=")
		if err := apply(p, key, value); err != nil {
			return nil, err
		}
	}
	return Pod(p), nil
}

func apply(p *v1.Pod, key, value string) error {
	if label, ok := strings.CutPrefix(key, "label."); ok {
		metav1.SetMetaDataLabel(&p.ObjectMeta, label, value)
		return nil
	}
	if annotation, ok := strings.CutPrefix(key, "ann."); ok {
		p.Annotations[annotation] = value
		return nil
	}
	if name, ok := strings.CutPrefix(key, "env."); ok {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: name, Value: value})
		return nil
	}
	switch key {
	case "uid":
		p.UID = types.UID(value)
	case "ns":
		p.Namespace = value
	case "image":
		p.Spec.Containers[0].Image = value
	case "phase":
		p.Status.Phase = v1.PodPhase(value)
	case "node":
		p.Spec.NodeName = value
	case "rv":
		p.ResourceVersion = value
	case "mirror":
		p.Annotations[manifest.MirrorAnnotation] = value
	case "hash":
		p.Annotations[manifest.HashAnnotation] = value
	case "deleting":
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("deleting: %w", err)
		}
		at := metav1.Unix(1_700_000_000, 0)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds
	case "pad":
		kib, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("pad: %w", err)
		}
		p.Annotations["pad"] = strings.Repeat("x", kib<<10)
	default:
		return fmt.Errorf("the key %q isn't known", key)
	}
	return nil
}
