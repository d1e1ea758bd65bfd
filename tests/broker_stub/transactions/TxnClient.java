// Kafka's Java clients, driven over stdin: one command a line, its words apart by tabs, and one line of answer to each: "ok" and what was
// asked for, or "failed", the name of the exception and its message. It ends with its input, and it keeps no deadline but the clients' own.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class TxnClient {
    private static final long DEADLINE_MS = 20_000;
    private static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private static final Map<String, KafkaConsumer<String, String>> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what a library prints is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                String answer = run(line.split("\t", -1));
                out.println("ok\t" + answer);
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                out.println("failed\t" + cause.getClass().getSimpleName() + "\t" + String.valueOf(cause.getMessage()).replaceAll("\\s", " "));
            }
            out.flush();
        }
        System.exit(0);
    }

    private static String run(String[] words) throws Exception {
        String name = words[1];
        switch (words[0]) {
            case "open": // name, bootstrap, transactional id, timeout in ms
                KafkaProducer<String, String> made = new KafkaProducer<>(producing(words[2], words[3], words[4]));
                producers.put(name, made);
                made.initTransactions();
                return "";
            case "begin":
                producers.get(name).beginTransaction();
                return "";
            case "send": // name, topic, partition, value
                producers.get(name).send(new ProducerRecord<>(words[2], Integer.parseInt(words[3]), null, words[4])).get();
                return "";
            case "offset": // name, member, topic, partition, offset
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(new TopicPartition(words[3], Integer.parseInt(words[4])), new OffsetAndMetadata(Long.parseLong(words[5])));
                producers.get(name).sendOffsetsToTransaction(offsets, members.get(words[2]).groupMetadata());
                return "";
            case "commit":
                producers.get(name).commitTransaction();
                return "";
            case "abort":
                producers.get(name).abortTransaction();
                return "";
            case "close":
                producers.remove(name).close(Duration.ZERO);
                return "";
            case "join": // name, bootstrap, group, topic, count of records to read
                KafkaConsumer<String, String> member = new KafkaConsumer<>(consuming(words[2], words[3]));
                members.put(name, member);
                member.subscribe(List.of(words[4]));
                return read(member, Integer.parseInt(words[5]));
            case "leave":
                members.remove(name).close();
                return "";
            case "read": // nothing, bootstrap, topic, count of partitions, count of records
                try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(consuming(words[2], null))) {
                    List<TopicPartition> partitions = new ArrayList<>();
                    for (int index = 0; index < Integer.parseInt(words[4]); index++) {
                        partitions.add(new TopicPartition(words[3], index));
                    }
                    reader.assign(partitions);
                    reader.seekToBeginning(partitions);
                    return read(reader, Integer.parseInt(words[5]));
                }
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String read(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (values.size() < count && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                values.add(record.value());
            }
        }
        return String.join("\t", values);
    }

    private static Map<String, Object> producing(String bootstrap, String transactionalId, String timeoutMs) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", transactionalId);
        config.put("transaction.timeout.ms", timeoutMs);
        config.put("max.block.ms", DEADLINE_MS);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        return config;
    }

    private static Map<String, Object> consuming(String bootstrap, String group) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("isolation.level", "read_committed");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "50");
        if (group != null) {
            config.put("group.id", group);
        }
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        return config;
    }
}
