package stream

import (
	"google.golang.org/protobuf/encoding/protowire"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The protobuf fields of v1.Pod and metav1.ObjectMeta that lead to the deletion timestamp.
const (
	metadataField          protowire.Number = 1
	deletionTimestampField protowire.Number = 9
)

// deleting reports whether the pod has a deletion timestamp, which makes a change of it a DELETE. It reads only as
// far as that field: the consumer decodes the pod. It returns false for a pod without content, or with content that
// can't be read.
func deleting(p *podconfigv1.Pod) bool {
	switch content := p.GetContent().(type) {
	case *podconfigv1.Pod_Json:
		metadata := content.Json.GetFields()["metadata"].GetStructValue()
		return metadata.GetFields()["deletionTimestamp"].GetStringValue() != ""
	case *podconfigv1.Pod_Protobuf:
		metadata, _ := bytesField(content.Protobuf, metadataField)
		_, found := bytesField(metadata, deletionTimestampField)
		return found
	}
	return false
}

// bytesField returns the first field with that number and length-delimited type.
func bytesField(message []byte, number protowire.Number) ([]byte, bool) {
	for len(message) > 0 {
		n, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return nil, false
		}
		message = message[length:]
		if n == number && kind == protowire.BytesType {
			value, length := protowire.ConsumeBytes(message)
			return value, length >= 0
		}
		length = protowire.ConsumeFieldValue(n, kind, message)
		if length < 0 {
			return nil, false
		}
		message = message[length:]
	}
	return nil, false
}
