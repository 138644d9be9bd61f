package cluster

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Client returns client-go's client of the built-in kinds, the same at each call.
// It speaks protobuf, which all built-in kinds support, unless the config names a
// content type. Kinds of one's own have a [Kind].
//
// It panics if the first call finds the config's certificate files, which [New]
// has read, no longer readable; so do Dynamic and Metadata.
func (c *Cluster) Client() kubernetes.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		config := c.Config()
		if config.ContentType == "" && config.AcceptContentTypes == "" {
			config.ContentType = runtime.ContentTypeProtobuf
			config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		}
		c.client = kubernetes.NewForConfigOrDie(config)
	}
	return c.client
}

// Dynamic returns a client of kinds that are known only at run time, the same at
// each call.
func (c *Cluster) Dynamic() dynamic.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dynamic == nil {
		c.dynamic = dynamic.NewForConfigOrDie(c.Config())
	}
	return c.dynamic
}

// Metadata returns a client of the metadata of any kind, the same at each call.
func (c *Cluster) Metadata() metadata.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.metadata == nil {
		c.metadata = metadata.NewForConfigOrDie(c.Config())
	}
	return c.metadata
}
