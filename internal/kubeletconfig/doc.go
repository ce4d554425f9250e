// Package kubeletconfig reads the kubelet's configuration files: the one of --config and the drop-ins of --config-dir, merged as
// the kubelet merges them, with the file and line of what is wrong.
//
// Load reads the files, Merge makes one KubeletConfiguration of their documents. Documents of other kinds are left to
// package sourceconfig. The table in fields.go says which daemon each field belongs to. It runs no goroutines, and remembers
// nothing.
//
// As in the kubelet, fields that it doesn't know are only warned of, so that the configuration of a newer one works; and so are
// fields that are given twice, in the main file: in a drop-in they are refused.
package kubeletconfig
