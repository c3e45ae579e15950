package driver

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Limits of the CSI specification ("Size Limits") and of the fields that set their own.
const (
	maxStringBytes = 128
	maxMapBytes    = 4 << 10
	maxNodeIDBytes = 256
	// maxPathFieldBytes is Linux' PATH_MAX; the specification leaves paths to the platform.
	maxPathFieldBytes = 4096
)

// validateSizes holds every field of a request to the specification's size
// limits, so that no handler meets a longer one.
//
// Contexts and secrets are not checked: kubelet puts the pod's metadata and
// tokens into the volume context, which makes it longer than what the driver
// answered.
func validateSizes(req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	return validateMessage(m.ProtoReflect())
}

func validateMessage(m protoreflect.Message) error {
	var err error
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		err = validateField(field, value)
		return err == nil
	})
	return err
}

func validateField(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	switch {
	case field.IsMap():
		return validateMap(field, value.Map())
	case field.IsList():
		return validateList(field, value.List())
	case field.Kind() == protoreflect.MessageKind:
		return validateMessage(value.Message())
	case field.Kind() == protoreflect.StringKind:
		if limit := stringLimit(field.Name()); len(value.String()) > limit {
			return fieldTooLong.errorf(field.Name(), len(value.String()), limit)
		}
	}
	return nil
}

func stringLimit(field protoreflect.Name) int {
	switch field {
	case "target_path", "staging_target_path", "volume_path", "volume_publish_path":
		return maxPathFieldBytes
	case "node_id":
		return maxNodeIDBytes
	default:
		return maxStringBytes
	}
}

func validateMap(field protoreflect.FieldDescriptor, values protoreflect.Map) error {
	switch field.Name() {
	case "parameters", "mutable_parameters", "segments":
	default:
		return nil
	}
	size := 0
	values.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		size += len(key.String()) + len(value.String())
		return true
	})
	if size > maxMapBytes {
		return fieldTooLong.errorf(field.Name(), size, maxMapBytes)
	}
	return nil
}

func validateList(field protoreflect.FieldDescriptor, values protoreflect.List) error {
	size := 0
	for i := range values.Len() {
		switch field.Kind() {
		case protoreflect.MessageKind:
			if err := validateMessage(values.Get(i).Message()); err != nil {
				return err
			}
		case protoreflect.StringKind:
			size += len(values.Get(i).String())
		}
	}
	if size > maxMapBytes {
		return fieldTooLong.errorf(field.Name(), size, maxMapBytes)
	}
	return nil
}
