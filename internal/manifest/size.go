package manifest

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	v1 "k8s.io/api/core/v1"
)

const (
	// envelope is what podconfigd adds to a pod: annotations, reference, digests.
	envelope = 4 << 10
	// structGrowth is more than a value can grow from JSON text to a google.protobuf.Struct: the worst is a list of
	// one-digit numbers, which take 2 bytes each in JSON and 11 there.
	structGrowth = 8
)

// checkSize refuses a pod that is larger than MaxPodSize in one of the formats.
func checkSize(pod *v1.Pod) error {
	if size := pod.Size(); size > MaxPodSize-envelope {
		return tooLarge("protobuf", size)
	}
	data, err := json.Marshal(pod)
	if err != nil {
		return problemf("encode the pod as JSON: %v", err)
	}
	if len(data) > MaxPodSize-envelope {
		return tooLarge("JSON", len(data))
	}
	if len(data) <= (MaxPodSize-envelope)/structGrowth {
		return nil
	}
	return checkStruct(data)
}

// checkObjectSize does the same for a ConfigMap or Secret, given its size in protobuf. Its size as JSON text doesn't
// predict what is sent: files have many characters that are escaped there.
func checkObjectSize(object any, size int) error {
	if size > MaxPodSize-envelope {
		return tooLarge("protobuf", size)
	}
	if size <= (MaxPodSize-envelope)/structGrowth {
		return nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return problemf("encode it as JSON: %v", err)
	}
	return checkStruct(data)
}

// checkStruct refuses JSON that is too large as a Struct.
func checkStruct(data []byte) error {
	content := &structpb.Struct{}
	if err := content.UnmarshalJSON(data); err != nil {
		return problemf("encode it as a Struct: %v", err)
	}
	if size := proto.Size(content); size > MaxPodSize-envelope {
		return tooLarge("JSON (google.protobuf.Struct)", size)
	}
	return nil
}

func tooLarge(format word, size int) error {
	return problemf("it is too large: %d bytes as %s, and %d at most can be sent", size, format, MaxPodSize-envelope)
}
