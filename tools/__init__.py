"""What a developer of tf_lso calls: see the help of each tool."""
