// Package kubeletconfig reads the kubelet's configuration files: the one of --config and the drop-ins of
// --config-dir, merged as the kubelet merges them. Its errors have file and line.
//
// Load reads the files, Merge makes one KubeletConfiguration of their documents. Package sourceconfig reads documents
// of other kinds. The table in fields.go has the daemon that each field belongs to. It runs no goroutines, and keeps
// nothing.
//
// As in the kubelet, unknown fields are only warnings, so that the configuration of a newer kubelet works. Fields
// that are given twice are warnings in the main file, and errors in a drop-in.
package kubeletconfig
