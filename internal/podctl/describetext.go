package podctl

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// probeText is a probe in one line; empty if there is none.
func probeText(p *corev1.Probe) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d",
		handlerText(&p.ProbeHandler), p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold)
}

func handlerText(h *corev1.ProbeHandler) string {
	switch {
	case h.Exec != nil:
		return "exec " + quoted(h.Exec.Command)
	case h.HTTPGet != nil:
		scheme := strings.ToLower(string(h.HTTPGet.Scheme))
		if scheme == "" {
			scheme = "http"
		}
		return fmt.Sprintf("http-get %s://%s/%s", scheme, net.JoinHostPort(h.HTTPGet.Host, h.HTTPGet.Port.String()),
			strings.TrimPrefix(h.HTTPGet.Path, "/"))
	case h.TCPSocket != nil:
		return "tcp-socket " + net.JoinHostPort(h.TCPSocket.Host, h.TCPSocket.Port.String())
	case h.GRPC != nil:
		text := fmt.Sprintf("grpc :%d", h.GRPC.Port)
		if h.GRPC.Service != nil && *h.GRPC.Service != "" {
			text += " " + *h.GRPC.Service
		}
		return text
	default:
		return "unknown"
	}
}

// volumeText returns the source of a volume in one line.
func volumeText(v *corev1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		text := "emptyDir"
		if v.EmptyDir.Medium != "" {
			text += " in " + string(v.EmptyDir.Medium)
		}
		if v.EmptyDir.SizeLimit != nil {
			text += " of at most " + v.EmptyDir.SizeLimit.String()
		}
		return text
	case v.HostPath != nil:
		return "hostPath " + v.HostPath.Path
	case v.ConfigMap != nil:
		return "configMap " + v.ConfigMap.Name
	case v.Secret != nil:
		return "secret " + v.Secret.SecretName
	case v.Projected != nil:
		return "projected: " + projectedText(v.Projected.Sources)
	case v.DownwardAPI != nil:
		return "downwardAPI"
	case v.PersistentVolumeClaim != nil:
		return "persistentVolumeClaim " + v.PersistentVolumeClaim.ClaimName
	case v.CSI != nil:
		return "csi " + v.CSI.Driver
	case v.Image != nil:
		return "image " + v.Image.Reference
	default:
		return typeOf(v.VolumeSource)
	}
}

// typeOf returns the name of the field that is set in a volume or in a projected source: its type.
func typeOf(source any) string {
	var fields map[string]json.RawMessage
	text, err := json.Marshal(source)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil || len(fields) == 0 {
		return "unknown"
	}
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

func projectedText(sources []corev1.VolumeProjection) string {
	var parts []string
	for _, s := range sources {
		switch {
		case s.ConfigMap != nil:
			parts = append(parts, "configMap "+s.ConfigMap.Name)
		case s.Secret != nil:
			parts = append(parts, "secret "+s.Secret.Name)
		case s.DownwardAPI != nil:
			parts = append(parts, "downwardAPI")
		case s.ServiceAccountToken != nil:
			parts = append(parts, "service account token")
		default:
			parts = append(parts, typeOf(s))
		}
	}
	return strings.Join(parts, ", ")
}
