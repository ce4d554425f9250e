package csidriver

import (
	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/podstream/podstream/test/csidriver/calllog"
)

// stripped replaces the value of a secret in the log.
const stripped = "***stripped***"

// tokens is the key of a volume's context that has tokens of service accounts.
const tokens = "csi.storage.k8s.io/serviceAccount.tokens"

// describe sets a record's volume, paths and arguments.
func describe(request proto.Message, r *calllog.Record) error {
	type (
		withVolume  interface{ GetVolumeId() string }
		withTarget  interface{ GetTargetPath() string }
		withPath    interface{ GetVolumePath() string }
		withStaging interface{ GetStagingTargetPath() string }
	)
	if m, ok := request.(withVolume); ok {
		r.Volume = m.GetVolumeId()
	}
	if m, ok := request.(withTarget); ok {
		r.Target = m.GetTargetPath()
	}
	if m, ok := request.(withPath); ok {
		r.Target = m.GetVolumePath()
	}
	if m, ok := request.(withStaging); ok {
		r.Staging = m.GetStagingTargetPath()
	}
	args := proto.Clone(request)
	strip(args)
	var err error
	r.Args, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(args)
	return err
}

// strip replaces the values of a request's secrets.
func strip(request proto.Message) {
	m := request.ProtoReflect()
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		secret, _ := proto.GetExtension(field.Options(), csipb.E_CsiSecret).(bool)
		if !field.IsMap() {
			return true
		}
		entries := value.Map()
		entries.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
			if secret || field.Name() == "volume_context" && k.String() == tokens {
				entries.Set(k, protoreflect.ValueOfString(stripped))
			}
			return true
		})
		return true
	})
}
