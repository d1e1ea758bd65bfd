// Kafka's assignors over stdin: a line is a group as JSON, the answer a line with its assignment.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.MemberData;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assignors {
    private static final ObjectMapper json = new ObjectMapper();

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = json.createObjectNode();
            try {
                assign(json.readTree(line), answer);
            } catch (RuntimeException error) {
                answer.removeAll();
                answer.put("error", error.getClass().getSimpleName());
            }
            answers.println(json.writeValueAsString(answer));
        }
    }

    private static void assign(JsonNode group, ObjectNode answer) throws Exception {
        ConsumerPartitionAssignor assignor = named(group.get("assignor").asText());
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : group.get("members")) members.put(member.get("id").asText(), subscription(member, assignor));
        Map<String, ConsumerPartitionAssignor.Assignment> found =
            assignor.assign(cluster(group), new GroupSubscription(members)).groupAssignment();
        ObjectNode partitions = answer.putObject("partitions");
        found.forEach((member, assignment) -> {
            ArrayNode several = partitions.putArray(member);
            assignment.partitions().forEach(tp -> several.addArray().add(tp.topic()).add(tp.partition()));
        });
        if (assignor instanceof AbstractStickyAssignor sticky && sticky.partitionsTransferringOwnership() != null) {
            ArrayNode transferring = answer.putArray("transferring");
            sticky.partitionsTransferringOwnership().forEach((tp, member) -> transferring.addArray().add(tp.topic()).add(tp.partition()).add(member));
        }
    }

    private static ConsumerPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    private static Cluster cluster(JsonNode group) {
        List<PartitionInfo> every = new ArrayList<>();
        group.get("partitions").fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : group.get("racks").path(topic.getKey()).path(number))
                    replicas.add(new Node(replicas.size(), "localhost", 9092, rack.asText()));
                Node[] nodes = replicas.isEmpty() ? new Node[] {Node.noNode()} : replicas.toArray(new Node[0]);
                every.add(new PartitionInfo(topic.getKey(), number, Node.noNode(), nodes, nodes));
            }
        });
        return new Cluster("c", List.of(), every, Collections.emptySet(), Set.of());
    }

    private static Subscription subscription(JsonNode member, ConsumerPartitionAssignor assignor) throws Exception {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(tp -> owned.add(new TopicPartition(tp.get(0).asText(), tp.get(1).asInt())));
        int generation = member.get("generation").asInt();
        Optional<String> rack = Optional.ofNullable(member.get("rack").textValue());
        boolean inUserData = assignor instanceof StickyAssignor; // it revokes everything before it joins
        ByteBuffer userData = inUserData ? userData(owned, generation) : null;
        Subscription found = new Subscription(topics, userData, inUserData ? List.of() : owned, generation, rack);
        found.setGroupInstanceId(Optional.ofNullable(member.get("instance_id").textValue()));
        return found;
    }

    private static ByteBuffer userData(List<TopicPartition> owned, int generation) throws Exception {
        if (owned.isEmpty() && generation < 0) return null;
        Method serialize = StickyAssignor.class.getDeclaredMethod("serializeTopicPartitionAssignment", MemberData.class);
        serialize.setAccessible(true);
        return (ByteBuffer) serialize.invoke(null, new MemberData(owned, Optional.of(generation)));
    }
}
