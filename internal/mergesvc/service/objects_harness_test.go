package service_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectNode is a node that also serves objects.
type objectNode struct {
	*node
	objects *objects.Hub
}

// startObjects starts a node that keeps this many revisions of objects. Zero means the default.
func startObjects(t *testing.T, revisions int, o options) *objectNode {
	t.Helper()
	n := &objectNode{}
	configure := o.service
	o.service = func(c *service.Config) {
		n.objects = objects.New(objects.Config{
			History: c.History, Revisions: revisions, Logger: c.Logger,
		})
		c.Objects = n.objects
		if configure != nil {
			configure(c)
		}
	}
	n.node = start(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.objects.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return n
}

// apply merges a set of origins with its objects.
func (n *objectNode) apply(source string, origins ...*manifest.Origin) {
	n.second++
	mergesvc.Intake{Pods: n.hub, Objects: n.objects}.Apply(manifest.Set{Source: source, ReadTime: time.Unix(n.second, 0), Origins: origins})
}

// from returns an origin with pods and objects.
func from(name string, content ...any) *manifest.Origin {
	o := &manifest.Origin{Name: name}
	for _, c := range content {
		switch c := c.(type) {
		case *manifest.Pod:
			o.Pods = append(o.Pods, c)
		case *manifest.Object:
			o.Objects = append(o.Objects, c)
		}
	}
	return o
}

// user returns a pod of a node that has "cm/NAME" and "secret/NAME" as volumes.
func user(name, node string, refs ...string) *manifest.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: node}}
	for _, ref := range refs {
		kind, object, _ := strings.Cut(ref, "/")
		v := v1.Volume{Name: object}
		if kind == "cm" {
			v.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: object}}
		} else {
			v.Secret = &v1.SecretVolumeSource{SecretName: object}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return mergetest.Pod(p)
}

// object returns "cm/NAME" or "secret/NAME" with a value.
func object(ref, value string) *manifest.Object {
	kind, name, _ := strings.Cut(ref, "/")
	meta := metav1.ObjectMeta{Name: name, Namespace: "default"}
	var o *manifest.Object
	var err error
	if kind == "cm" {
		o, err = manifest.NewConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"v": value}})
	} else {
		o, err = manifest.NewSecret(&v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"v": []byte(value)}})
	}
	if err != nil {
		panic(err)
	}
	return o
}

func keyOf(ref string) manifest.ObjectKey { return object(ref, "").Key() }

// heldObjects returns known objects of a consumer, of the source file unless another is given:
// "api:cm/a=VALUE", or without a value for a missing object.
func heldObjects(texts ...string) []*podconfigv1.KnownObject {
	var out []*podconfigv1.KnownObject
	for _, text := range texts {
		source, rest, ok := strings.Cut(text, ":")
		if !ok {
			source, rest = "file", text
		}
		ref, value, held := strings.Cut(rest, "=")
		k := &podconfigv1.KnownObject{Ref: objects.Ref{Source: source, ObjectKey: keyOf(ref)}.Message()}
		if held {
			k.Digest = object(ref, value).Digest
		}
		out = append(out, k)
	}
	return out
}
