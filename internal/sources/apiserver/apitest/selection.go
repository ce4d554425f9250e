package apitest

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kwatch "k8s.io/apimachinery/pkg/watch"
)

// selection is the objects of a resource that a request selects.
type selection struct {
	namespace string
	fields    fields.Selector
	labels    labels.Selector
}

// selectionOf returns a request's selection, or the error in it.
func selectionOf(r Request) (selection, *metav1.Status) {
	byField, err := fields.ParseSelector(r.FieldSelector)
	if err != nil {
		return selection{}, badRequest("fieldSelector: " + err.Error())
	}
	for _, term := range byField.Requirements() {
		if _, ok := fieldsOf(r.Resource, &v1.Pod{})[term.Field]; !ok {
			return selection{}, badRequest("field label not supported: " + term.Field)
		}
	}
	byLabel, err := labels.Parse(r.LabelSelector)
	if err != nil {
		return selection{}, badRequest("labelSelector: " + err.Error())
	}
	return selection{namespace: r.Namespace, fields: byField, labels: byLabel}, nil
}

func (s selection) matches(resource string, o Object) bool {
	return o != nil && (s.namespace == "" || s.namespace == o.GetNamespace()) &&
		s.fields.Matches(fieldsOf(resource, o)) && s.labels.Matches(labels.Set(o.GetLabels()))
}

// frame returns what a watch of the selection gets of the event, if anything.
func (s selection) frame(e event) (frame, bool) {
	was, is := s.matches(e.resource, e.before), !e.deleted && s.matches(e.resource, e.after)
	switch {
	case is && was:
		return frame{kind: kwatch.Modified, object: e.after}, true
	case is:
		return frame{kind: kwatch.Added, object: e.after}, true
	case was:
		return frame{kind: kwatch.Deleted, object: e.after}, true
	default:
		return frame{}, false
	}
}

// fieldsOf returns the fields of an object that can be selected by.
func fieldsOf(resource string, o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch resource {
	case "pods":
		set["spec.nodeName"] = ""
		if pod, ok := o.(*v1.Pod); ok {
			set["spec.nodeName"] = pod.Spec.NodeName
		}
	case "secrets":
		set["type"] = ""
		if secret, ok := o.(*v1.Secret); ok {
			set["type"] = string(secret.Type)
		}
	}
	return set
}
